// SPDX-License-Identifier: Apache-2.0
#include "kernels/packaged.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <utility>

#include "call/error.h"
#include "kernels/kernel_ref.h"
#include "kernels/sha256.h"

namespace graphffi {
namespace {

/// A folder of this process alone, for as long as the loader reads from it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    const char* root = std::getenv("TMPDIR");
    path_ = std::string(root == nullptr || *root == '\0' ? "/tmp" : root) + "/graphffi-XXXXXX";
    if (mkdtemp(path_.data()) == nullptr) {
      throw Error("RuntimeError",
                  "graphffi: cannot make a folder '" + path_ + "'; set TMPDIR to a writable one");
    }
  }
  ~TemporaryFolder() {
    for (const std::string& file : files_) unlink(file.c_str());
    rmdir(path_.c_str());
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string Write(const std::string& name, const std::string& bytes) {
    files_.push_back(path_ + "/" + name);
    std::ofstream file(files_.back(), std::ios::binary);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (!file.flush()) {
      throw Error("RuntimeError",
                  "graphffi: cannot write '" + files_.back() + "'; is there space?");
    }
    return files_.back();
  }

 private:
  std::string path_;
  std::vector<std::string> files_;
};

[[noreturn]] void Fail(const std::string& subject, const std::string& name,
                       const std::string& what) {
  throw Error("ValueError", subject + ": library '" + name + "': " + what);
}

bool Holds(const std::vector<std::string>& list, const std::string& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

}  // namespace

std::vector<PackagedLibrary> ReadManifest(const std::string& subject, const std::string& manifest) {
  std::istringstream lines(manifest);
  std::vector<PackagedLibrary> libraries;
  for (PackagedLibrary library; lines >> library.sha256 >> library.name;) {
    if (library.name.front() == '.' || library.name.find('/') != std::string::npos) {
      Fail(subject, library.name, "expected a name without slashes or a leading dot, got one");
    }
    libraries.push_back(library);
  }
  return libraries;
}

void LoadPackagedLibraries(const std::string& subject,
                           const std::vector<PackagedLibrary>& libraries, const ReadLibrary& read,
                           const std::vector<std::string>* opt_trusted) {
  std::vector<std::pair<std::string, std::string>> verified;  // names and files
  TemporaryFolder folder;
  for (const PackagedLibrary& library : libraries) {
    const std::optional<std::string> bytes = read(library.name);
    if (!bytes) Fail(subject, library.name, "expected it in the package, found none");
    const std::string sha256 = Sha256(bytes->data(), bytes->size());
    if (sha256 != library.sha256) {
      Fail(subject, library.name,
           "expected sha256 " + library.sha256 + ", got " + sha256 + "; the package is damaged");
    }
    if (opt_trusted != nullptr && !Holds(*opt_trusted, sha256)) {
      Fail(subject, library.name, "expected a trusted sha256, got " + sha256);
    }
    verified.emplace_back(library.name, folder.Write(library.name, *bytes));
  }
  for (const auto& [name, file] : verified) ProvideLibrary(name, file);
}

namespace {

constexpr size_t kNameDigits = 16;

/// The SHA-256 of a file. \throws Error(RuntimeError) if it can't be read
std::string Sha256OfFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  if (!file) {
    throw Error("RuntimeError", "graphffi: cannot read '" + path + "'; is it there?");
  }
  const std::string content = bytes.str();
  return Sha256(content.data(), content.size());
}

/// The file of a library that a program names by its content, or the one that it was made with.
std::string FindPackaged(const std::string& library, const std::string& name,
                         const std::string& folder) {
  const std::string beside = folder + "/" + name;
  if (!folder.empty() && access(beside.c_str(), R_OK) == 0) return beside;
  try {
    return FindLibrary(name, folder);
  } catch (const Error&) {
    if (access(library.c_str(), R_OK) != 0) throw;
    return library;
  }
}

}  // namespace

std::string PackagedName(const std::string& path) {
  const std::string base = path.substr(path.rfind('/') + 1);
  return base.substr(0, base.find(".so")) + "-" + Sha256OfFile(path).substr(0, kNameDigits) + ".so";
}

std::string FindPackagedKernel(const std::string& reference, const std::string& name,
                               const std::string& folder) {
  const size_t separator = reference.rfind("::");
  if (IsProvided(name)) return name + reference.substr(separator);
  const std::string path = FindPackaged(reference.substr(0, separator), name, folder);
  const std::string found = Sha256OfFile(path);
  if (name.find("-" + found.substr(0, kNameDigits) + ".so") != std::string::npos) {
    return path + reference.substr(separator);
  }
  throw Error("ValueError",
              "graphffi: kernel '" + reference + "': expected the library of the " + "export, " +
                  name + ", got '" + path + "' with SHA-256 " + found +
                  "; put the library of the export beside the model, or export again");
}

}  // namespace graphffi
