// SPDX-License-Identifier: Apache-2.0
// How containers are visited and mutated by structure: type attributes that visitors and mutators,
// which live in other libraries' headers, call for each container that they meet.
#include <utility>
#include <vector>

#include "array.h"
#include "error.h"
#include "map.h"
#include "type_registry.h"

namespace graphffi::runtime {
namespace {

/// The layouts of the objects in those headers.
struct Visitor;
struct VisitorTable {
  TVMFFIAny (*visit)(Visitor* visitor, TVMFFIAny value);
};
struct Visitor {
  TVMFFIObject header;
  const VisitorTable* table;
};

struct Mutator;
using MutateFunction = TVMFFIAny (*)(Mutator* mutator, TVMFFIAny value);
struct MutatorTable {
  MutateFunction mutate;
  MutateFunction maybe_inplace_mutate;
};
struct Mutator {
  TVMFFIObject header;
  const MutatorTable* table;
};

constexpr TVMFFIAny kUnchanged = {kTVMFFIUnchanged, {0}, {0}};

/// The result of a hook. An exception becomes an Error value.
template <typename Body>
TVMFFIAny RunHook(Body&& body) noexcept {
  Any result;
  if (Guard([&] { result = body(); }) == 0) return result.Release();
  TVMFFIObjectHandle error = nullptr;
  TVMFFIErrorMoveFromRaised(&error);
  return Any::Object(ObjectPtr<>::Steal(error)).Release();
}

/// Whether a visit ends here: with an error or an interrupt.
bool Ends(const Any& result) { return !result.IsNone(); }
bool IsError(const Any& result) { return result.type_index() == kTVMFFIError; }

/// Whether a mutated value is another one than before.
bool Changed(const Any& mutated, const TVMFFIAny& before) {
  const TVMFFIAny& after = mutated.view();
  if (after.type_index == kTVMFFIUnchanged) return false;
  return after.type_index != before.type_index || after.zero_padding != before.zero_padding ||
         after.v_uint64 != before.v_uint64;
}

SeqObject* Sequence(const TVMFFIAny& value) { return reinterpret_cast<SeqObject*>(value.v_obj); }
MapObject* Map(const TVMFFIAny& value) { return reinterpret_cast<MapObject*>(value.v_obj); }

// A callback may change the container meanwhile, so that sizes and positions are read again, and
// what is being visited is kept.

TVMFFIAny VisitSequence(Visitor* visitor, TVMFFIAny value) noexcept {
  return RunHook([&] {
    SeqObject* sequence = Sequence(value);
    for (int64_t i = 0; i < sequence->size(); ++i) {
      Any item = sequence->items()[i];
      Any result = Any::Steal(visitor->table->visit(visitor, item.view()));
      if (Ends(result)) return result;
    }
    return Any();
  });
}

/// Visits the values: keys only tell where they are.
TVMFFIAny VisitMap(Visitor* visitor, TVMFFIAny value) noexcept {
  return RunHook([&] {
    MapObject* map = Map(value);
    for (uint64_t p = FirstPosition(map); p != kNoSlot; p = NextPosition(map, p)) {
      Any item = Any::FromView(*ItemAt(map, p).value);
      Any result = Any::Steal(visitor->table->visit(visitor, item.view()));
      if (Ends(result)) return result;
      if (!HasItemAt(map, p)) break;
    }
    return Any();
  });
}

Any Mutate(Mutator* mutator, const TVMFFIAny& value) {
  return Any::Steal(mutator->table->mutate(mutator, value));
}

/// In place where nobody else has the value, for which the caller must not own it either.
Any MutateInPlace(Mutator* mutator, const TVMFFIAny& value) {
  bool in_place = HoldsObject(value) && IsUnique(value.v_obj);
  MutateFunction mutate = in_place ? mutator->table->maybe_inplace_mutate : mutator->table->mutate;
  return Any::Steal(mutate(mutator, value));
}

TVMFFIAny KeepUnchanged(Mutator*, TVMFFIAny) noexcept { return kUnchanged; }

TVMFFIAny MutateSequence(Mutator* mutator, TVMFFIAny value) noexcept {
  return RunHook([&] {
    SeqObject* sequence = Sequence(value);
    bool is_list = value.type_index == kTVMFFIList;
    std::vector<Any> items;
    for (int64_t i = 0; i < sequence->size(); ++i) {
      const TVMFFIAny item = sequence->items()[i].view();
      // Items of an array stay, and a reference more would hide that one has no other.
      Any kept = is_list ? sequence->items()[i] : Any();
      Any mutated = Mutate(mutator, item);
      if (IsError(mutated)) return mutated;
      if (!Changed(mutated, item)) continue;
      if (items.empty()) items.assign(sequence->items(), sequence->items() + sequence->size());
      if (i < static_cast<int64_t>(items.size())) items[i] = std::move(mutated);
    }
    if (items.empty()) return Any::Steal(kUnchanged);
    return Any::Object(is_list ? MakeList(std::move(items)) : MakeArray(std::move(items)));
  });
}

TVMFFIAny MutateSequenceInPlace(Mutator* mutator, TVMFFIAny value) noexcept {
  return RunHook([&] {
    SeqObject* sequence = Sequence(value);
    for (int64_t i = 0; i < sequence->size(); ++i) {
      const TVMFFIAny item = sequence->items()[i].view();
      Any mutated = MutateInPlace(mutator, item);
      if (IsError(mutated)) return mutated;
      if (i < sequence->size() && Changed(mutated, item)) {
        std::swap(sequence->items()[i], mutated);
      }
    }
    return Any::Steal(kUnchanged);
  });
}

TVMFFIAny MutateMap(Mutator* mutator, TVMFFIAny value) noexcept {
  return RunHook([&] {
    MapObject* map = Map(value);
    ObjectPtr<MapObject> copy;
    for (uint64_t p = FirstPosition(map); p != kNoSlot; p = NextPosition(map, p)) {
      Any key = Any::FromView(*ItemAt(map, p).key);
      const TVMFFIAny item = *ItemAt(map, p).value;
      Any kept = value.type_index == kTVMFFIDict ? Any::FromView(item) : Any();
      Any mutated = Mutate(mutator, item);
      if (IsError(mutated)) return mutated;
      if (Changed(mutated, item)) {
        if (!copy) copy = CopyMap(map);
        SetInMap(copy.get(), std::move(key), std::move(mutated));
      }
      if (!HasItemAt(map, p)) break;
    }
    return copy ? Any::Object(std::move(copy)) : Any::Steal(kUnchanged);
  });
}

TVMFFIAny MutateMapInPlace(Mutator* mutator, TVMFFIAny value) noexcept {
  return RunHook([&] {
    MapObject* map = Map(value);
    for (uint64_t p = FirstPosition(map); p != kNoSlot; p = NextPosition(map, p)) {
      Any key = Any::FromView(*ItemAt(map, p).key);
      const TVMFFIAny item = *ItemAt(map, p).value;
      Any mutated = MutateInPlace(mutator, item);
      if (IsError(mutated)) return mutated;
      if (!HasItemAt(map, p)) break;
      if (Changed(mutated, item)) SetInMap(map, std::move(key), std::move(mutated));
    }
    return Any::Steal(kUnchanged);
  });
}

void RegisterMutation(int32_t type_index, MutateFunction mutate, MutateFunction in_place) {
  RegisterFunctionAttr(type_index, "__s_mutate__", mutate);
  RegisterFunctionAttr(type_index, "__s_maybe_inplace_mutate__", in_place);
}

[[maybe_unused]] const bool hooks_are_registered = [] {
  for (int32_t type_index : {kTVMFFIArray, kTVMFFIList}) {
    RegisterFunctionAttr(type_index, "__s_visit__", VisitSequence);
    RegisterMutation(type_index, MutateSequence, MutateSequenceInPlace);
  }
  for (int32_t type_index : {kTVMFFIMap, kTVMFFIDict}) {
    RegisterFunctionAttr(type_index, "__s_visit__", VisitMap);
    RegisterMutation(type_index, MutateMap, MutateMapInPlace);
  }
  for (int32_t type_index : {kTVMFFIStr, kTVMFFIBytes, kTVMFFIBigInt}) {
    RegisterMutation(type_index, KeepUnchanged, KeepUnchanged);
  }
  return true;
}();

}  // namespace
}  // namespace graphffi::runtime
