// SPDX-License-Identifier: Apache-2.0
// How containers are visited and mutated by structure: type attributes that visitors and mutators,
// of whatever library, call for each container that they meet.
#include <tvm/ffi/big_int.h>
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/dict.h>
#include <tvm/ffi/container/list.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/extra/structural_mutator.h>
#include <tvm/ffi/extra/structural_visit.h>
#include <tvm/ffi/reflection/registry.h>

#include <utility>
#include <vector>

#include "runtime/containers/contents.h"

namespace graphffi::runtime {
namespace {

using ffi::InplaceMode;
using ffi::MapBaseObj;
using ffi::SeqBaseObj;
using ffi::StructuralMutatorObj;
using ffi::StructuralVisitorObj;
using VisitResult = StructuralVisitorObj::Result;
using MutateResult = StructuralMutatorObj::Result;

template <typename Container>
Container* BodyOf(AnyView value) {
  return ffi::detail::AnyUnsafe::RawObjectPtrFromAnyViewAfterCheck<Container>(value);
}

/// Whether a mutated value is another one than before.
bool Changed(const MutateResult& mutated, AnyView before) {
  const Any& after = ffi::detail::ExpectedUnsafe::GetData(mutated);
  return after.type_index() != kTVMFFIUnchanged && !AnyView(after).same_as(before);
}

Any ValueOf(MutateResult mutated) { return std::move(mutated).value().ValueUnchecked(); }

// A callback may change the container meanwhile, so that sizes and positions are read again, and
// what is being visited is kept.

VisitResult VisitItems(StructuralVisitorObj* visitor, AnyView value) {
  for (const Any& item : Items(value)) {
    TVM_FFI_S_VISIT_MAYBE_EARLY_RETURN(visitor->VisitExpected(item));
  }
  return ffi::Optional<ffi::VisitInterrupt>();
}

/// Visits the values: keys only tell where they are.
VisitResult VisitEntries(StructuralVisitorObj* visitor, AnyView value) {
  for (const auto& [key, item] : Entries(value)) {
    TVM_FFI_S_VISIT_MAYBE_EARLY_RETURN(visitor->VisitExpected(item));
  }
  return ffi::Optional<ffi::VisitInterrupt>();
}

MutateResult KeepUnchanged(StructuralMutatorObj*, AnyView) {
  return ffi::UnchangedOr<Any>(ffi::Unchanged());
}

MutateResult MutateItems(StructuralMutatorObj* mutator, AnyView value) {
  const auto* sequence = BodyOf<SeqBaseObj>(value);
  const bool is_list = value.type_index() == kTVMFFIList;
  std::vector<Any> items;
  for (size_t i = 0; i < sequence->size(); ++i) {
    const AnyView item = sequence->begin()[i];
    // Items of an array stay, and a reference more would hide that one has no other.
    const Any kept = is_list ? Any(item) : Any();
    MutateResult mutated = mutator->MutateExpected(item);
    if (mutated.is_err()) return mutated;
    if (!Changed(mutated, item)) continue;
    if (items.empty()) items.assign(sequence->begin(), sequence->end());
    if (i < items.size()) items[i] = ValueOf(std::move(mutated));
  }
  if (items.empty()) return KeepUnchanged(mutator, value);
  return ffi::UnchangedOr<Any>(is_list ? Any(ffi::List<Any>(items)) : Any(ffi::Array<Any>(items)));
}

MutateResult MutateItemsInPlace(StructuralMutatorObj* mutator, AnyView value) {
  auto* sequence = BodyOf<SeqBaseObj>(value);
  for (size_t i = 0; i < sequence->size(); ++i) {
    const AnyView item = sequence->begin()[i];
    MutateResult mutated = mutator->MutateExpected(item, InplaceMode::kAllow);
    if (mutated.is_err()) return mutated;
    if (i >= sequence->size() || !Changed(mutated, item)) continue;
    Any replaced = ValueOf(std::move(mutated));
    std::swap(sequence->MutableBegin()[i], replaced);
  }
  return KeepUnchanged(mutator, value);
}

MutateResult MutateEntries(StructuralMutatorObj* mutator, AnyView value) {
  const auto* map = BodyOf<MapBaseObj>(value);
  const bool is_dict = value.type_index() == kTVMFFIDict;
  ffi::ObjectPtr<MapBaseObj> copy;
  for (uint64_t at = map->begin().index(); map->HasPairAt(at);
       at = (++MapBaseObj::iterator(map, at)).index()) {
    const Any key = MapBaseObj::iterator(map, at)->first;
    const AnyView item = MapBaseObj::iterator(map, at)->second;
    const Any kept = is_dict ? Any(item) : Any();
    MutateResult mutated = mutator->MutateExpected(item);
    if (mutated.is_err()) return mutated;
    if (Changed(mutated, item)) {
      if (copy == nullptr && is_dict) copy = MapBaseObj::CopyFrom<ffi::DictObj>(map);
      if (copy == nullptr) copy = MapBaseObj::CopyFrom<ffi::MapObj>(map);
      copy->InsertOrAssign(key, ValueOf(std::move(mutated)));
    }
    if (!map->HasPairAt(at)) break;
  }
  if (copy == nullptr) return KeepUnchanged(mutator, value);
  return ffi::UnchangedOr<Any>(Any(std::move(copy)));
}

MutateResult MutateEntriesInPlace(StructuralMutatorObj* mutator, AnyView value) {
  auto* map = BodyOf<MapBaseObj>(value);
  for (uint64_t at = map->begin().index(); map->HasPairAt(at);
       at = (++MapBaseObj::iterator(map, at)).index()) {
    const Any key = MapBaseObj::iterator(map, at)->first;
    const AnyView item = MapBaseObj::iterator(map, at)->second;
    MutateResult mutated = mutator->MutateExpected(item, InplaceMode::kAllow);
    if (mutated.is_err()) return mutated;
    if (!map->HasPairAt(at)) break;
    if (Changed(mutated, item)) map->InsertOrAssign(key, ValueOf(std::move(mutated)));
  }
  return KeepUnchanged(mutator, value);
}

template <typename Type, auto mutate, auto mutate_in_place>
void DefineMutation() {
  refl::TypeAttrDef<Type>()
      .template native_fn_attr<mutate>(ffi::type_attr::kStructuralMutate)
      .template native_fn_attr<mutate_in_place>(ffi::type_attr::kStructuralMaybeInplaceMutate);
}
template <typename Container, auto visit, auto mutate, auto mutate_in_place>
void DefineContainer() {
  refl::TypeAttrDef<Container>().template native_fn_attr<visit>(ffi::type_attr::kStructuralVisit);
  DefineMutation<Container, mutate, mutate_in_place>();
}

TVM_FFI_STATIC_INIT_BLOCK() {
  DefineContainer<ffi::ArrayObj, &VisitItems, &MutateItems, &MutateItemsInPlace>();
  DefineContainer<ffi::ListObj, &VisitItems, &MutateItems, &MutateItemsInPlace>();
  DefineContainer<ffi::MapObj, &VisitEntries, &MutateEntries, &MutateEntriesInPlace>();
  DefineContainer<ffi::DictObj, &VisitEntries, &MutateEntries, &MutateEntriesInPlace>();
  DefineMutation<ffi::detail::StringObj, &KeepUnchanged, &KeepUnchanged>();
  DefineMutation<ffi::detail::BytesObj, &KeepUnchanged, &KeepUnchanged>();
  DefineMutation<ffi::detail::BigIntObj, &KeepUnchanged, &KeepUnchanged>();
}

}  // namespace
}  // namespace graphffi::runtime
