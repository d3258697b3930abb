// SPDX-License-Identifier: Apache-2.0
#include "graphffi_torch/package.h"

#include <caffe2/serialize/inline_container.h>
#include <tvm/ffi/c_api.h>

#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include "call/error.h"
#include "call/global_function.h"
#include "kernels/packaged.h"

namespace graphffi_torch {
namespace {

constexpr char kFolder[] = "graphffi/";
constexpr char kManifest[] = "graphffi/libraries.sha256";
constexpr char kFunctions[] = "graphffi/functions";  // names of global functions, one a line

using Reader = caffe2::serialize::PyTorchStreamReader;

std::string Subject(const std::string& path) { return "graphffi_torch: package '" + path + "'"; }

[[noreturn]] void Fail(const std::string& path, const std::string& what) {
  throw graphffi::Error("ValueError", Subject(path) + ": " + what);
}

std::unique_ptr<Reader> Open(const std::string& path) {
  try {
    auto reader = std::make_unique<Reader>(path);
    if (reader->hasRecord(kManifest)) return reader;
  } catch (const c10::Error& error) {
    Fail(path, "expected a PyTorch archive, got " + std::string(error.what_without_backtrace()));
  }
  Fail(path, "expected one that graphffi_torch.package wrote, got one without kernel libraries");
}

std::string Read(Reader* reader, const std::string& record) {
  auto [bytes, size] = reader->getRecord(record);
  return std::string(static_cast<const char*>(bytes.get()), size);
}

std::vector<graphffi::PackagedLibrary> List(const std::string& path, Reader* reader) {
  return graphffi::ReadManifest(Subject(path), Read(reader, kManifest));
}

/// The package does not hold the global functions that its model calls.
void CheckFunctions(const std::string& path, Reader* reader) {
  if (!reader->hasRecord(kFunctions)) return;
  std::istringstream lines(Read(reader, kFunctions));
  std::string missing;
  for (std::string name; std::getline(lines, name);) {
    if (!graphffi::FindGlobal(name)) missing += (missing.empty() ? "'" : ", '") + name + "'";
  }
  if (missing.empty()) return;
  throw graphffi::Error("KeyError", Subject(path) + ": expected the global functions " + missing +
                                        " in this process, got none; register them, or load the "
                                        "library that does, before the package");
}

}  // namespace

std::vector<PackageLibrary> PackageLibraries(const std::string& path) {
  std::vector<PackageLibrary> libraries;
  for (graphffi::PackagedLibrary& library : List(path, Open(path).get())) {
    libraries.push_back({std::move(library.name), std::move(library.sha256)});
  }
  return libraries;
}

void LoadPackageLibraries(const std::string& path, const std::vector<std::string>* opt_trusted) {
  std::unique_ptr<Reader> reader = Open(path);
  auto read = [&reader](const std::string& name) -> std::optional<std::string> {
    const std::string record = kFolder + name;
    if (!reader->hasRecord(record)) return std::nullopt;
    return Read(reader.get(), record);
  };
  graphffi::LoadPackagedLibraries(Subject(path), List(path, reader.get()), read, opt_trusted);
  CheckFunctions(path, reader.get());  // afterwards: libraries may register some
}

}  // namespace graphffi_torch
