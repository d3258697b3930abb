// SPDX-License-Identifier: Apache-2.0
// any.h, string.h, optional.h, variant.h, expected.h, rvalue_ref.h, dtype.h, device.h.
#include "header.h"

TEST(any_casts_between_numbers_and_refuses_the_rest) {
  Any value = 3;
  CHECK_EQ(value.cast<int>(), 3);
  CHECK_EQ(value.cast<double>(), 3.0);
  CHECK(value.cast<bool>());
  CHECK(!value.as<double>().has_value());
  CHECK(!value.try_cast<String>().has_value());
  CHECK_EQ(Message([&] { value.cast<String>(); }),
           "TypeError: Cannot convert from type `int` to `str`");
  CHECK_EQ(Message([&] { Any(1.5).cast<int>(); }),
           "TypeError: Cannot convert from type `float` to `int`");
  CHECK_EQ(Message([&] { Any(uint64_t{1} << 63); }),
           "OverflowError: Integer value 9223372036854775808 is too large to fit in int64_t");
}

TEST(an_int_is_not_cut) {
  static constexpr int64_t kLarge = int64_t{1} << 32;
  CHECK_EQ(Message([] { Any(kLarge).cast<int32_t>(); }),
           "TypeError: Cannot convert from type `4294967296, which 32 bits do not hold` to `int`");
  CHECK(!Any(300).try_cast<uint8_t>().has_value());
  CHECK(!Any(-1).try_cast<uint32_t>().has_value());
  CHECK(!Any(-129).as<int8_t>().has_value());
  CHECK(!Any(kLarge).try_cast<Optional<int>>().has_value());
  CHECK(!Any(Array<int64_t>{1, kLarge}).try_cast<Array<int>>().has_value());
  CHECK((Any(kLarge).cast<Variant<int, int64_t>>().get<int64_t>()) == kLarge);
  CHECK_EQ(Any(255).cast<uint8_t>(), 255);
  CHECK_EQ(Any(-128).cast<int8_t>(), -128);
  CHECK_EQ(Any(int64_t{0xffffffff}).cast<uint32_t>(), 0xffffffff);
  CHECK_EQ(Any(-1).cast<uint64_t>(), UINT64_MAX);  // which no Any can be made of
}

TEST(any_owns_and_view_borrows) {
  Shape shape{1, 2};
  {
    Any owned = shape;
    AnyView view = owned;
    CHECK_EQ(shape.use_count(), 2);
    Any again = view;
    CHECK_EQ(shape.use_count(), 3);
    Any moved = std::move(again);
    CHECK(again == nullptr);
    CHECK_EQ(shape.use_count(), 3);
    CHECK(std::move(moved).cast<Shape>().same_as(shape));
  }
  CHECK_EQ(shape.use_count(), 1);
}

TEST(c_strings_become_strings_when_owned) {
  AnyView view = "longer than seven";
  CHECK_EQ(view.type_index(), int32_t{kTVMFFIRawStr});
  Any owned = view;
  CHECK_EQ(owned.type_index(), int32_t{kTVMFFIStr});
  CHECK_EQ(Any("short").type_index(), int32_t{kTVMFFISmallStr});
  CHECK_EQ(std::string(owned.cast<String>()), std::string("longer than seven"));
}

TEST(strings_of_7_8_and_4096_bytes) {
  for (size_t size : {0, 7, 8, 4096}) {
    std::string text(size, 'x');
    String string = text;
    CHECK_EQ(string.size(), size);
    CHECK_EQ(std::string(string.c_str()), text);
    CHECK(string == text && text == string && !(string < text));
    String copy = string;
    CHECK(copy == string && std::hash<String>()(copy) == std::hash<String>()(string));
    CHECK_EQ((string + "y").size(), size + 1);
    CHECK_EQ(Any(string).cast<std::string>(), text);
  }
  CHECK_EQ(String("abc").compare("abd"), -1);
  CHECK_EQ(std::string(EscapeStringJSON("a\"\n\x01")), std::string("\"a\\\"\\n\\u0001\""));
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  CHECK(EscapeString("a\"") == EscapeStringJSON("a\""));  // the old name
}

TEST(a_string_that_is_moved_in_is_an_object) {
  Any moved = String(std::string("short"));
  CHECK_EQ(moved.type_index(), int32_t{kTVMFFIStr});
  CHECK(AnyEqual()(moved, "short") && AnyHash()(moved) == AnyHash()(Any("short")));
  CHECK_EQ(Any(Bytes(std::string("short"))).type_index(), int32_t{kTVMFFIBytes});
}

TEST(bytes_keep_nul) {
  Bytes bytes("a\0b", 3);
  CHECK_EQ(bytes.size(), size_t{3});
  CHECK(Any(bytes).cast<Bytes>() == bytes);
  CHECK_EQ(Message([&] { Any(bytes).cast<String>(); }),
           "TypeError: Cannot convert from type `ffi.SmallBytes` to `str`");
}

TEST(an_optional_of_an_optional_has_the_size_of_a_value) {
  static_assert(sizeof(Optional<Optional<int>>) == sizeof(Any));
  static_assert(sizeof(Optional<Optional<Function>>) == sizeof(Any));
  Optional<Optional<int>> nested = Optional<int>(7);
  CHECK_EQ(nested.value().value(), 7);
  CHECK(Any(nested).cast<Optional<Optional<int>>>().value() == 7);
  nested = std::nullopt;
  CHECK(!nested.has_value() && Any(nested) == nullptr);
  CHECK(!Optional<Optional<int>>(Optional<int>()).has_value());
}

TEST(an_optional_variant_is_none_or_the_value) {
  using Choice = Variant<int, String>;
  static_assert(sizeof(Optional<Choice>) == sizeof(Any));
  Optional<Choice> choice;
  CHECK(!choice.has_value() && Any(choice) == nullptr);
  choice = Choice(String("longer than seven"));
  CHECK(choice.value().get<String>() == "longer than seven");
  CHECK(Any(choice).cast<Optional<Choice>>().has_value());
}

TEST(optional_is_none_or_the_value) {
  Optional<int> number;
  CHECK(!number.has_value() && number == std::nullopt);
  CHECK_EQ(number.value_or(4), 4);
  CHECK_EQ(Message([&] { number.value(); }).substr(0, 13), "RuntimeError:");
  number = 5;
  CHECK(number == 5 && *number == 5);
  CHECK(Any(nullptr).cast<Optional<String>>() == std::nullopt);
  Optional<Function> function = Function(nullptr);
  CHECK(!function.has_value());
  Optional<Array<int>> array = Array<int>{1};
  CHECK_EQ(array->size(), size_t{1});
  const ArrayObj* object = array.operator->();
  CHECK(object == array.value().get() && array.unique() && array.same_as(ObjectRef(*array)));
  array = nullptr;
  CHECK(!array.has_value() && array == Optional<Array<int>>(nullptr));
  CHECK(Optional<int>() == std::optional<int>() && number == std::optional<int>(5));
  CHECK(Optional<int>() != std::optional<int>(5));
  CHECK_EQ(Message([&] { Any("x").cast<Optional<int>>(); }),
           "TypeError: Cannot convert from type `ffi.SmallStr` to `Optional<int>`");
}

TEST(variant_holds_one_of_its_types) {
  Variant<int, String> value = 1;
  CHECK_EQ(value.get<int>(), 1);
  CHECK(!value.as<String>().has_value());
  value = String("text");
  CHECK(value.get<String>() == "text");
  CHECK_EQ(Message([&] { value.get<int>(); }),
           "TypeError: Cannot convert from type `ffi.SmallStr` to `int`");
  CHECK_EQ(Message([&] { Any(1.5).cast<Variant<int, String>>(); }),
           "TypeError: Cannot convert from type `float` to `Variant<int, str>`");
}

TEST(expected_is_a_value_or_an_error) {
  Expected<int> good = 3;
  CHECK(good.is_ok() && good.value() == 3);
  Expected<int> bad = Error("ValueError", "no", "");
  CHECK(bad.is_err() && bad.value_or(7) == 7);
  CHECK_EQ(Message([&] { bad.value(); }), "ValueError: no");
  Function function = Function::FromTyped([](int x) -> Expected<int> {
    if (x < 0) return Error("ValueError", "negative", "");
    return x;
  });
  CHECK_EQ(function(2).cast<int>(), 2);
  CHECK_EQ(Message([&] { function(-1); }), "ValueError: negative");
  CHECK_EQ(function.CallExpected<int>(-1).error().kind(), std::string("ValueError"));
  CHECK_EQ(function.CallExpected<String>(1).error().kind(), std::string("TypeError"));
}

TEST(rvalue_reference_moves_the_argument) {
  Function append = Function::FromTyped([](RValueRef<Array<int>> argument) {
    Array<int> array = *std::move(argument);
    CHECK(array.unique());
    array.push_back(9);
    return array;
  });
  Array<int> array{1};
  Array<int> result = append(RValueRef(std::move(array))).cast<Array<int>>();
  CHECK(!array.defined());
  CHECK_EQ(result.back(), 9);
  Function copy = Function::FromTyped([](RValueRef<Array<int>> argument) {
    Array<int> taken = *std::move(argument);
    return taken.use_count();
  });
  CHECK_EQ(copy(result).cast<int>(), 2);
}

TEST(dtypes_print_compare_and_measure) {
  DLDataType float32{kDLFloat, 32, 1};
  std::ostringstream os;
  os << float32 << " " << DLDataType{kDLBfloat, 16, 4};
  CHECK_EQ(os.str(), std::string("float32 bfloat16x4"));
  CHECK(StringToDLDataType("float32") == float32);
  CHECK((float32 != DLDataType{kDLFloat, 16, 1}));
  CHECK(Any("int8").cast<DLDataType>() == (DLDataType{kDLInt, 8, 1}));
  CHECK_EQ(GetDataSize(3, DLDataType{kDLFloat4_e2m1fn, 4, 1}), size_t{2});
  CHECK_EQ(Message([] { StringToDLDataType("float33x"); }).substr(0, 11), "ValueError:");
}

TEST(devices_print_compare_and_parse) {
  DLDevice device = Any("cuda:1").cast<DLDevice>();
  CHECK((device == DLDevice{kDLCUDA, 1}));
  CHECK((device != DLDevice{kDLCUDA, 0}));
  std::ostringstream os;
  os << device << " " << DLDevice{kDLCPU, 0};
  CHECK_EQ(os.str(), std::string("cuda:1 cpu:0"));
  CHECK_EQ(Message([] { Any("cuda:x").cast<DLDevice>(); }),
           "TypeError: Cannot convert from type `ffi.SmallStr` to `Device`");
}

TEST(keys_hash_as_the_layout_of_maps_needs) {
  AnyEqual equal;
  AnyHash hash;
  CHECK_EQ(hash(Any(1)), uint64_t{2654435835});
  CHECK_EQ(hash(Any("abc")), uint64_t{2660953131});
  CHECK_EQ(hash(Any("abcdefghijkl")), uint64_t{3544676574});
  CHECK(equal(Any("abcdefghijkl"), Any(String("abcdefghijkl"))));
  CHECK(!equal(Any(1), Any(1.0)) && !equal(Any(1), Any(true)));
}
