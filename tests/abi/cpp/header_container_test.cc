// SPDX-License-Identifier: Apache-2.0
// container/: array, list, map, dict, tuple, shape.
#include <map>

#include "header.h"

TEST(array_is_copied_when_shared) {
  Array<int> array{1, 2, 3};
  Array<int> other = array;
  array.push_back(4);
  array.Set(0, 7);
  CHECK_EQ(array.size(), size_t{4});
  CHECK_EQ(other.size(), size_t{3});
  CHECK_EQ(other[0], 1);
  array.insert(array.begin() + 1, 9);
  array.erase(array.begin());
  CHECK((std::vector<int>(array.begin(), array.end()) == std::vector<int>{9, 2, 3, 4}));
  CHECK_EQ(Message([&] { array[4]; }), "IndexError: Index 4 out of bounds 4");
  CHECK_EQ(Message([&] { Array<int>().pop_back(); }), "IndexError: pop_back on empty sequence");
  CHECK_EQ(Message([&] { Array<int>().front(); }), "IndexError: front() on empty sequence");
  CHECK(Array<Any>(array).same_as(array));
}

TEST(array_argument_is_converted_only_where_needed) {
  Any integers = Array<int>{1, 2};
  CHECK(integers.cast<Array<int>>().same_as(integers.cast<ObjectRef>()));
  Array<double> floats = integers.cast<Array<double>>();
  CHECK(!floats.same_as(integers.cast<ObjectRef>()));
  CHECK_EQ(floats[1], 2.0);
  CHECK_EQ(Message([] { Any(Array<Any>{1, "x"}).cast<Array<int>>(); }),
           "TypeError: Cannot convert from type `Array[index 1: ffi.SmallStr]` to `Array<int>`");
  CHECK_EQ(Any(List<int>{5}).cast<Array<int>>()[0], 5);
  CHECK_EQ(Any(Array<int>{5}).cast<Shape>()[0], int64_t{5});
}

TEST(list_is_shared) {
  List<String> list;
  List<String> other = list;
  for (int i = 0; i < 100; ++i) list.push_back(std::to_string(i));
  CHECK_EQ(other.size(), size_t{100});
  CHECK(other[99] == "99");
  other.clear();
  CHECK(list.empty());
}

TEST(erase_names_the_index_that_is_not_there) {
  CHECK_EQ(Message([] {
             Array<int> empty;
             empty.erase(empty.begin());
           }),
           "IndexError: Index 0 out of bounds 0");
}

TEST(list_is_whole_where_an_element_dies) {
  List<Any> list;
  std::vector<int> seen;  // the list as the end of its element finds it
  auto dying = [&] {
    std::shared_ptr<void> end(nullptr, [&](void*) {
      seen.clear();
      for (const Any& element : list) seen.push_back(element.try_cast<int>().value_or(-1));
    });
    return Any(Function::FromTyped([end] {}));
  };
  list = {Any(1), dying(), Any(2), Any(3)};
  list.erase(list.begin() + 1);
  CHECK((seen == std::vector<int>{1, 2, 3}));
  list.Set(0, dying());
  list.Set(0, Any(4));
  CHECK((seen == std::vector<int>{4, 2, 3}));
  list.push_back(dying());
  list.pop_back();
  CHECK((seen == std::vector<int>{4, 2, 3}));
  list.push_back(dying());
  list.resize(1);
  CHECK((seen == std::vector<int>{4}));
  list.push_back(dying());
  list.clear();
  CHECK(seen.empty());
}

TEST(containers_refuse_more_room_than_there_is) {
  List<Any> list = {1, 2};
  Array<Any> array = {1, 2};
  auto runs_out = [](auto&& reserve) {
    try {
      reserve();
    } catch (const std::bad_alloc&) {
      return true;
    }
    return false;
  };
  for (int64_t capacity : {int64_t{1} << 60, int64_t{1} << 62, INT64_MAX}) {
    CHECK(runs_out([&] { list.reserve(capacity); }));
    CHECK(runs_out([&] { array.reserve(capacity); }));
  }
  CHECK_EQ(list.size() + array.size(), size_t{4});
}

TEST(map_keeps_insertion_order_through_growth_and_erasure) {
  Map<String, int> map;
  std::map<std::string, int> expected;
  for (int i = 0; i < 5000; ++i) {
    map.Set("key" + std::to_string(i), i);
    expected["key" + std::to_string(i)] = i;
  }
  for (int i = 0; i < 5000; i += 3) {
    map.erase("key" + std::to_string(i));
    expected.erase("key" + std::to_string(i));
  }
  for (int i = 0; i < 100; ++i) {
    map.Set("again" + std::to_string(i), i);
    expected["again" + std::to_string(i)] = i;
  }
  CHECK_EQ(map.size(), expected.size());
  int last = -1;
  size_t seen = 0;
  for (auto [key, value] : map) {
    CHECK_EQ(expected.at(key), value);
    bool is_again = std::string(key).substr(0, 5) == "again";
    if (is_again && seen < expected.size() - 100) CHECK(false);
    if (!is_again) CHECK(value > last);
    if (!is_again) last = value;
    ++seen;
  }
  CHECK_EQ(seen, expected.size());
  for (const auto& [key, value] : expected) CHECK_EQ(map[key], value);
  CHECK_EQ(Message([&] { map["key0"]; }), "KeyError: key is not in Map");
}

TEST(map_is_copied_when_shared_and_dict_is_not) {
  Map<String, int> map{{"a", 1}};
  Map<String, int> other = map;
  map.Set("b", 2);
  CHECK_EQ(other.size(), size_t{1});
  Dict<int, Any> dict;
  Dict<int, Any> same = dict;
  for (int i = 0; i < 50; ++i) dict.Set(i, "x");
  CHECK_EQ(same.size(), size_t{50});
  CHECK(same.Get(3).has_value() && !same.Get(50).has_value());
  Map<int, Any> of_none = {{1, nullptr}};
  CHECK(of_none.Get(1).has_value());  // None is a value
}

TEST(maps_of_this_header_and_of_the_runtime_read_each_other) {
  Function make = Function::GetGlobalRequired("ffi.Map");
  Function get = Function::GetGlobalRequired("ffi.MapGetItem");
  for (int size : {0, 3, 5, 40, 1000}) {
    std::vector<AnyView> pairs;
    Map<int, int> ours;
    for (int i = 0; i < size; ++i) {
      pairs.emplace_back(i * 7919);
      pairs.emplace_back(i);
      ours.Set(i * 7919, i);
    }
    Any theirs;
    make.CallPacked(pairs.data(), 2 * size, &theirs);
    Map<int, int> read = theirs.cast<Map<int, int>>();
    CHECK_EQ(read.size(), static_cast<size_t>(size));
    int order = 0;
    for (auto [key, value] : read) {
      CHECK_EQ(value, order++);
      CHECK_EQ(ours[key], value);
      CHECK_EQ(read[key], value);
      CHECK_EQ(get(ours, key).cast<int>(), value);
    }
  }
}

TEST(objects_of_maps_are_changed_in_place) {
  Dict<Any, Any> dict{{1, 2}, {3, 4}, {5, 6}};
  auto* object = const_cast<DictObj*>(dict.get());
  object->erase(object->begin());
  object->erase(DictObj::key_type(5));
  CHECK(dict.size() == 1 && dict.at(3).cast<int>() == 4);
  object->clear();
  CHECK(dict.empty());
}

TEST(tuple_is_an_array_with_a_type_for_each_element) {
  Tuple<int, String> tuple(1, "x");
  auto [number, text] = tuple;
  CHECK(number == 1 && text == "x");
  tuple.Set<0>(5);
  CHECK_EQ(tuple.get<0>(), 5);
  CHECK_EQ(
      Message([&] { Any(tuple).cast<Tuple<int, int>>(); }),
      "TypeError: Cannot convert from type `Array[index 1: ffi.SmallStr]` to `Tuple<int, int>`");
  CHECK_EQ(Message([&] { Any(tuple).cast<Tuple<int>>(); }),
           "TypeError: Cannot convert from type `Array[size=2]` to `Tuple<int>`");
}

TEST(shape_iterates_indexes_and_multiplies) {
  Shape shape{2, 3, 4};
  ShapeView view = shape;
  int64_t sum = 0;
  for (int64_t dim : view) sum += dim;
  CHECK_EQ(sum, int64_t{9});
  CHECK(view.Product() == 24 && view.front() == 2 && view.back() == 4 && view[1] == 3);
  CHECK_EQ(Shape().Product(), int64_t{1});
  CHECK_EQ(Message([&] { shape.at(3); }), "IndexError: indexing 3 on a Shape of size 3");
  std::ostringstream os;
  os << shape;
  CHECK_EQ(os.str(), std::string("[2, 3, 4]"));
}
