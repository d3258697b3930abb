// SPDX-License-Identifier: Apache-2.0
#include "graphffi_torch/package.h"

#include <caffe2/serialize/inline_container.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <utility>

#include "callframe/error.h"
#include "callframe/kernel_ref.h"
#include "sha256.h"

namespace graphffi_torch {
namespace {

constexpr char kFolder[] = "graphffi/";
// Lines `<sha256>  <name>`.
constexpr char kManifest[] = "graphffi/libraries.sha256";

using Reader = caffe2::serialize::PyTorchStreamReader;

[[noreturn]] void Fail(const std::string& path, const std::string& what) {
  throw graphffi::Error("ValueError", "graphffi_torch: package '" + path + "': " + what);
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

std::vector<PackageLibrary> ReadManifest(const std::string& path, Reader* reader) {
  auto [bytes, size] = reader->getRecord(kManifest);
  std::istringstream lines(std::string(static_cast<const char*>(bytes.get()), size));
  std::vector<PackageLibrary> libraries;
  for (PackageLibrary library; lines >> library.sha256 >> library.name;) {
    if (library.name.find('/') != std::string::npos) {
      Fail(path, "library '" + library.name + "': expected a name without slashes, got one");
    }
    libraries.push_back(library);
  }
  return libraries;
}

/// A folder of this process alone, for as long as the loader reads from it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    const char* root = std::getenv("TMPDIR");
    path_ = std::string(root == nullptr || *root == '\0' ? "/tmp" : root) + "/graphffi-XXXXXX";
    if (mkdtemp(path_.data()) == nullptr) {
      throw graphffi::Error("RuntimeError", "graphffi_torch: cannot make a folder '" + path_ +
                                                "'; set TMPDIR to a writable one");
    }
  }
  ~TemporaryFolder() {
    for (const std::string& file : files_) unlink(file.c_str());
    rmdir(path_.c_str());
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string Write(const std::string& name, const void* bytes, size_t size) {
    files_.push_back(path_ + "/" + name);
    std::ofstream file(files_.back(), std::ios::binary);
    file.write(static_cast<const char*>(bytes), static_cast<std::streamsize>(size));
    if (!file.flush()) {
      throw graphffi::Error(
          "RuntimeError", "graphffi_torch: cannot write '" + files_.back() + "'; is there space?");
    }
    return files_.back();
  }

 private:
  std::string path_;
  std::vector<std::string> files_;
};

bool Holds(const std::vector<std::string>& list, const std::string& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

}  // namespace

std::vector<PackageLibrary> PackageLibraries(const std::string& path) {
  return ReadManifest(path, Open(path).get());
}

void LoadPackageLibraries(const std::string& path, const std::vector<std::string>* opt_trusted) {
  std::unique_ptr<Reader> reader = Open(path);
  std::vector<std::pair<std::string, std::string>> verified;  // names and files
  TemporaryFolder folder;
  for (const PackageLibrary& library : ReadManifest(path, reader.get())) {
    if (!reader->hasRecord(kFolder + library.name)) {
      Fail(path, "library '" + library.name + "': expected it in the package, found none");
    }
    auto [bytes, size] = reader->getRecord(kFolder + library.name);
    std::string sha256 = Sha256(bytes.get(), size);
    if (sha256 != library.sha256) {
      Fail(path, "library '" + library.name + "': expected sha256 " + library.sha256 + ", got " +
                     sha256 + "; the package is damaged");
    }
    if (opt_trusted != nullptr && !Holds(*opt_trusted, sha256)) {
      Fail(path, "library '" + library.name + "': expected a trusted sha256, got " + sha256);
    }
    verified.emplace_back(library.name, folder.Write(library.name, bytes.get(), size));
  }
  for (const auto& [name, file] : verified) graphffi::ProvideLibrary(name, file);
}

}  // namespace graphffi_torch
