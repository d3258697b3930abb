/* SPDX-License-Identifier: Apache-2.0
 * Functions of glibc by their first versions: a library that is built here runs on older systems,
 * those of manylinux_2_28. Each stands for the function of its name inside of one library. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sys/stat.h>

#ifdef __x86_64__
#define FIRST "GLIBC_2.2.5"
#define FIRST_DLADDR1 "GLIBC_2.3.3"
#else
#define FIRST "GLIBC_2.17"
#define FIRST_DLADDR1 FIRST
#endif

/* Declares First_name, the function `name` of that version. */
#define OLD(result, name, version, parameters) \
  extern result First_##name parameters;       \
  __asm__(".symver First_" #name ", " #name "@" version)
#define HIDDEN __attribute__((visibility("hidden")))

OLD(void*, dlopen, FIRST, (const char*, int));
HIDDEN void* dlopen(const char* file, int mode) { return First_dlopen(file, mode); }
OLD(void*, dlsym, FIRST, (void*, const char*));
HIDDEN void* dlsym(void* library, const char* name) { return First_dlsym(library, name); }
OLD(int, dlclose, FIRST, (void*));
HIDDEN int dlclose(void* library) { return First_dlclose(library); }
OLD(char*, dlerror, FIRST, (void));
HIDDEN char* dlerror(void) { return First_dlerror(); }
OLD(int, dladdr, FIRST, (const void*, Dl_info*));
HIDDEN int dladdr(const void* address, Dl_info* found) { return First_dladdr(address, found); }
OLD(int, dladdr1, FIRST_DLADDR1, (const void*, Dl_info*, void**, int));
HIDDEN int dladdr1(const void* address, Dl_info* found, void** extra, int flags) {
  return First_dladdr1(address, found, extra, flags);
}
OLD(int, pthread_getattr_np, FIRST, (pthread_t, pthread_attr_t*));
HIDDEN int pthread_getattr_np(pthread_t thread, pthread_attr_t* attributes) {
  return First_pthread_getattr_np(thread, attributes);
}
OLD(int, pthread_attr_getstack, FIRST, (const pthread_attr_t*, void**, size_t*));
HIDDEN int pthread_attr_getstack(const pthread_attr_t* attributes, void** address, size_t* size) {
  return First_pthread_attr_getstack(attributes, address, size);
}
OLD(int, pthread_rwlock_rdlock, FIRST, (pthread_rwlock_t*));
HIDDEN int pthread_rwlock_rdlock(pthread_rwlock_t* lock) {
  return First_pthread_rwlock_rdlock(lock);
}
OLD(int, pthread_rwlock_wrlock, FIRST, (pthread_rwlock_t*));
HIDDEN int pthread_rwlock_wrlock(pthread_rwlock_t* lock) {
  return First_pthread_rwlock_wrlock(lock);
}
OLD(int, pthread_rwlock_unlock, FIRST, (pthread_rwlock_t*));
HIDDEN int pthread_rwlock_unlock(pthread_rwlock_t* lock) {
  return First_pthread_rwlock_unlock(lock);
}

/* glibc before 2.33 has `stat` under another name, with the number of struct stat's layout. */
#ifdef __x86_64__
#define LAYOUT 1
#else
#define LAYOUT 0
#endif
OLD(int, __xstat, FIRST, (int, const char*, struct stat*));
HIDDEN int stat(const char* path, struct stat* status) {
  return First___xstat(LAYOUT, path, status);
}

/* glibc 2.29's sets errno in another way, and gives the same values. */
OLD(double, pow, FIRST, (double, double));
HIDDEN double pow(double base, double exponent) { return First_pow(base, exponent); }

/* Of glibc 2.32, by which libstdc++ leaves out atomic instructions. */
HIDDEN char __libc_single_threaded = 0;
