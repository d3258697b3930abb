// SPDX-License-Identifier: Apache-2.0
// The registration of ops with a session's options.
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "call/error.h"
#include "call/text_lines.h"
#include "kernels/kernel_ref.h"
#include "kernels/packaged.h"
#include "op.h"
#include "ort/status.h"

namespace graphffi_onnxruntime {

using graphffi::Error;

namespace {

constexpr std::string_view kListFormat = "graphffi.ops 1";
constexpr char kEntry[] = "graphffi.ops";
constexpr char kVariable[] = "GRAPHFFI_ONNXRUNTIME_OPS";

/// The ops of a list, by domain. Lives as long as the process: so may sessions.
struct Domains {
  std::map<std::string, ort::CustomOpDomain*> domains;
  std::vector<std::unique_ptr<const Op>> ops;
};

std::unique_ptr<Domains> Make(const std::string& text, const std::string& folder,
                              const ort::Api* api) {
  auto made = std::make_unique<Domains>();
  for (const graphffi::TextLine& line : graphffi::ReadTextLines(text, kListFormat)) {
    const std::string words = std::string(line.name) + " " + line.value;
    if (words == " ") continue;
    made->ops.push_back(std::make_unique<const Op>(words, folder, api));
    const Op& op = *made->ops.back();
    ort::CustomOpDomain*& domain = made->domains[op.domain];
    if (domain == nullptr) {
      Call<ort::CreateCustomOpDomain>(api, op.domain.c_str(), &domain);
    }
    Call<ort::AddToDomain>(api, domain, static_cast<const ort::CustomOp*>(&op));
  }
  return made;
}

/// The same for the same list: models are loaded again and again.
const Domains& DomainsOf(const std::string& text, const std::string& folder, const ort::Api* api) {
  static auto* mutex = new std::mutex;
  static auto* known = new std::map<std::string, std::unique_ptr<Domains>>;
  const std::string key =
      std::to_string(reinterpret_cast<uintptr_t>(api)) + "\n" + folder + "\n" + text;
  std::lock_guard<std::mutex> lock(*mutex);
  std::unique_ptr<Domains>& domains = (*known)[key];
  if (domains == nullptr) domains = Make(text, folder, api);
  return *domains;
}

bool HasEntry(const ort::Api* api, const ort::SessionOptions* options, const std::string& key) {
  int has = 0;
  Call<ort::HasConfigEntry>(api, options, key.c_str(), &has);
  return has != 0;
}

/// An entry of the options; empty where there is none.
std::string EntryOf(const ort::Api* api, const ort::SessionOptions* options,
                    const std::string& key) {
  if (!HasEntry(api, options, key)) return "";
  size_t size = 0;
  Call<ort::GetConfigEntry>(api, options, key.c_str(), nullptr, &size);
  std::string value(size, '\0');
  Call<ort::GetConfigEntry>(api, options, key.c_str(), value.data(), &size);
  value.resize(size - 1);  // without the NUL
  return value;
}

/// ONNX Runtime says of a domain that is there twice "already set in registry", once the session is
/// made.
void AddTo(ort::SessionOptions* options, const Domains& domains, const ort::Api* api) {
  const auto key_of = [](const std::string& domain) { return "graphffi.domain." + domain; };
  for (const auto& each : domains.domains) {
    if (!HasEntry(api, options, key_of(each.first))) continue;
    throw Error("ValueError", "graphffi: domain '" + each.first +
                                  "': expected ops that are registered once with a session's "
                                  "options, got a second time; register all ops of a namespace at "
                                  "once, or make other options");
  }
  for (const auto& [name, domain] : domains.domains) {
    Call<ort::AddDomain>(api, options, domain);
    Call<ort::AddConfigEntry>(api, options, key_of(name).c_str(), "1");
  }
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) {
    throw Error("RuntimeError",
                "graphffi: list of ops '" + path +
                    "': expected the file that is written beside a model, got none");
  }
  return text.str();
}

/// The folder of a file, as an absolute path. Links are not followed: what they lead to may be
/// alone there.
std::string FolderOf(const std::string& path) {
  char folder[PATH_MAX];
  const bool is_absolute = path.front() == '/' || getcwd(folder, sizeof(folder)) == nullptr;
  const std::string absolute = is_absolute ? path : std::string(folder) + "/" + path;
  return absolute.substr(0, absolute.rfind('/'));
}

/// The functions of a library of ONNX Runtime's. \throws Error(RuntimeError) for an older one
const ort::Api* ApiOf(const ort::ApiBase& base) {
  const std::string version = base.get_version_string();
  const ort::Api* api = base.get_api(ort::kOldestApi);
  if (api == nullptr || version.substr(0, 2) != "1.") {
    throw Error("RuntimeError", "graphffi: expected ONNX Runtime 1.25 or newer, got " + version);
  }
  return api;
}

template <typename Run>
ort::Status* GuardOf(const ort::ApiBase& base, Run&& run) noexcept {
  return Guard(base.get_api(1), "", std::forward<Run>(run));
}

void Register(ort::SessionOptions* options, const ort::Api* api, const std::string& text,
              const std::string& folder) {
  AddTo(options, DomainsOf(text, folder, api), api);
}

/// By the path of a list of ops, or the list itself, in the options' entry or the environment.
void RegisterNamed(ort::SessionOptions* options, const ort::Api* api) {
  std::string path = EntryOf(api, options, kEntry);
  const char* opt_variable = std::getenv(kVariable);
  if (path.empty() && opt_variable != nullptr) path = opt_variable;
  if (path.empty()) {
    throw Error("ValueError", std::string("graphffi: expected a list of ops in the entry '") +
                                  kEntry + "' of the session's options, or in the variable " +
                                  kVariable +
                                  ", got none; call graphffi_onnxruntime.register, or "
                                  "name model.onnx.ops");
  }
  const bool is_text = path.compare(0, kListFormat.size(), kListFormat) == 0;
  if (is_text) return Register(options, api, path, "");
  Register(options, api, ReadFile(path), FolderOf(path));
}

}  // namespace

extern "C" {

/// ONNX Runtime calls it for `RegisterCustomOpsLibrary_V2`.
__attribute__((visibility("default"))) ort::Status* RegisterCustomOps(ort::SessionOptions* options,
                                                                      const ort::ApiBase* base) {
  return GuardOf(*base, [&] { RegisterNamed(options, ApiOf(*base)); });
}

/// For kernel libraries that export RegisterCustomOps: graphffi/onnxruntime.h.
__attribute__((visibility("default"))) void* graphffi_onnxruntime_register(void* options,
                                                                           const void* api_base,
                                                                           const char* ops,
                                                                           const char* library) {
  const auto& base = *static_cast<const ort::ApiBase*>(api_base);
  return GuardOf(base, [&] {
    graphffi::ProvideLibrary(graphffi::PackagedName(library), library);
    Register(static_cast<ort::SessionOptions*>(options), ApiOf(base), ops, FolderOf(library));
  });
}
}

}  // namespace graphffi_onnxruntime
