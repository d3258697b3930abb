// SPDX-License-Identifier: Apache-2.0
// Which Python callbacks a plugin wants to run itself.
#pragma once

namespace graphffi {

/// The content of a capsule called kName. Lives as long as the process.
struct CallbackFilter {
  static constexpr char kName[] = "graphffi.CallbackFilter";

  /// Whether this thread is in a call for which the plugin's framework has to run callables.
  /// `is_foreign`: Python did not start the thread. The GIL is held.
  bool (*needs_runner)(bool is_foreign);
};

}  // namespace graphffi
