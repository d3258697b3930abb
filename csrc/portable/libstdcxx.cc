// SPDX-License-Identifier: Apache-2.0
// Functions of newer releases of libstdc++ by those of GCC 8's: a library that is built here runs
// on older systems, those of manylinux_2_28. The compiler calls them by their mangled names.
#include <locale.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <sstream>
#include <string>

#define HIDDEN __attribute__((visibility("hidden")))

namespace {

/// Numbers are written and read with a point, whatever the process's locale.
class PointScope {
 public:
  PointScope() : former_(uselocale(Plain())) {}
  ~PointScope() { uselocale(former_); }

 private:
  static locale_t Plain() {
    static locale_t plain = newlocale(LC_ALL_MASK, "C", nullptr);
    return plain;
  }
  locale_t former_;
};

}  // namespace

extern "C" {

// std::condition_variable::wait(std::unique_lock<std::mutex>&)
void FirstWait(std::condition_variable*, std::unique_lock<std::mutex>*);
__asm__(
    ".symver FirstWait, "
    "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE@GLIBCXX_3.4.11");
HIDDEN void Wait(std::condition_variable* condition, std::unique_lock<std::mutex>* lock) __asm__(
    "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE");
void Wait(std::condition_variable* condition, std::unique_lock<std::mutex>* lock) {
  FirstWait(condition, lock);
}

// std::ostringstream::ostringstream(), by the constructor that takes a mode.
void ConstructStream(void*, std::ios_base::openmode) __asm__(
    "_ZNSt7__cxx1119basic_ostringstreamIcSt11char_traitsIcESaIcEEC1ESt13_Ios_Openmode");
HIDDEN void ConstructPlainStream(void* stream) __asm__(
    "_ZNSt7__cxx1119basic_ostringstreamIcSt11char_traitsIcESaIcEEC1Ev");
void ConstructPlainStream(void* stream) { ConstructStream(stream, std::ios_base::out); }

// std::stringbuf::str() of C++20, const& and &&, by C++17's. The latter leaves the buffer empty.
HIDDEN std::string CopyText(const std::stringbuf* buffer) __asm__(
    "_ZNKRSt7__cxx1115basic_stringbufIcSt11char_traitsIcESaIcEE3strEv");
std::string CopyText(const std::stringbuf* buffer) { return buffer->str(); }

HIDDEN std::string TakeText(std::stringbuf* buffer) __asm__(
    "_ZNOSt7__cxx1115basic_stringbufIcSt11char_traitsIcESaIcEE3strEv");
std::string TakeText(std::stringbuf* buffer) {
  std::string text = buffer->str();
  buffer->str("");
  return text;
}

// std::exception_ptr's counts, by its copy constructor and its destructor.
void CopyException(void*, const void*) __asm__("_ZNSt15__exception_ptr13exception_ptrC1ERKS0_");
void DestroyException(void*) __asm__("_ZNSt15__exception_ptr13exception_ptrD1Ev");
HIDDEN void AddException(void* exception) __asm__(
    "_ZNSt15__exception_ptr13exception_ptr9_M_addrefEv");
void AddException(void* exception) {
  alignas(std::exception_ptr) char copy[sizeof(std::exception_ptr)];  // never destroyed
  CopyException(copy, exception);
}
HIDDEN void ReleaseException(void* exception) __asm__(
    "_ZNSt15__exception_ptr13exception_ptr10_M_releaseEv");
void ReleaseException(void* exception) {
  DestroyException(exception);
  *static_cast<void**>(exception) = nullptr;
}

// std::from_chars(const char*, const char*, double&, std::chars_format)
HIDDEN std::from_chars_result ReadDouble(
    const char* first, const char* last, double* value,
    std::chars_format) __asm__("_ZSt10from_charsPKcS0_RdSt12chars_format");
std::from_chars_result ReadDouble(const char* first, const char* last, double* value,
                                  std::chars_format) {
  if (first == last || std::strchr("-.0123456789", *first) == nullptr) {
    return {first, std::errc::invalid_argument};
  }
  PointScope point;
  const std::string text(first, last);
  char* end = nullptr;
  errno = 0;
  const double read = std::strtod(text.c_str(), &end);
  const char* stopped = first + (end - text.c_str());
  if (stopped == first) return {first, std::errc::invalid_argument};
  const bool is_normal = read != 0 && !std::isinf(read);  // or the nearest subnormal number
  if (errno == ERANGE && !is_normal) return {stopped, std::errc::result_out_of_range};
  *value = read;
  return {stopped, std::errc()};
}

// std::to_chars(char*, char*, double): the shortest text that is read as the same number.
HIDDEN std::to_chars_result WriteDouble(char* first, char* last,
                                        double value) __asm__("_ZSt8to_charsPcS_d");
std::to_chars_result WriteDouble(char* first, char* last, double value) {
  PointScope point;
  char scientific[40], fixed[400];
  int digits = 0;  // behind the point
  do {
    std::snprintf(scientific, sizeof(scientific), "%.*e", digits, value);
  } while (std::strtod(scientific, nullptr) != value && ++digits < 17);
  const int exponent = std::atoi(std::strchr(scientific, 'e') + 1);
  const int behind = digits > exponent ? digits - exponent : 0;
  std::snprintf(fixed, sizeof(fixed), "%.*f", behind, value);
  const char* shortest = std::strlen(fixed) <= std::strlen(scientific) ? fixed : scientific;
  const size_t size = std::strlen(shortest);
  if (static_cast<size_t>(last - first) < size) return {last, std::errc::value_too_large};
  return {static_cast<char*>(std::memcpy(first, shortest, size)) + size, std::errc()};
}

}  // extern "C"

namespace std {
void __throw_bad_array_new_length() { throw bad_array_new_length(); }
}  // namespace std
