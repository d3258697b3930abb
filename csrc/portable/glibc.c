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

#define HIDDEN __attribute__((visibility("hidden")))
/* Declares First_name, the function `name` of that version. */
#define OLD(result, name, version, parameters) \
  extern result First_##name parameters;       \
  __asm__(".symver First_" #name ", " #name "@" version)
/* Defines `name` by the function of that version. */
#define BY(version, result, name, parameters, arguments) \
  OLD(result, name, version, parameters);                \
  HIDDEN result name parameters { return First_##name arguments; }

BY(FIRST, void*, dlopen, (const char* file, int mode), (file, mode))
BY(FIRST, void*, dlsym, (void* library, const char* name), (library, name))
BY(FIRST, int, dlclose, (void* library), (library))
BY(FIRST, char*, dlerror, (void), ())
BY(FIRST, int, dladdr, (const void* address, Dl_info* found), (address, found))
BY(FIRST_DLADDR1, int, dladdr1, (const void* address, Dl_info* found, void** extra, int flags),
   (address, found, extra, flags))
BY(FIRST, int, pthread_getattr_np, (pthread_t thread, pthread_attr_t* to), (thread, to))
BY(FIRST, int, pthread_attr_getstack, (const pthread_attr_t* of, void** address, size_t* size),
   (of, address, size))
BY(FIRST, int, pthread_rwlock_rdlock, (pthread_rwlock_t * lock), (lock))
BY(FIRST, int, pthread_rwlock_wrlock, (pthread_rwlock_t * lock), (lock))
BY(FIRST, int, pthread_rwlock_unlock, (pthread_rwlock_t * lock), (lock))

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
BY(FIRST, double, pow, (double base, double exponent), (base, exponent))

/* Of glibc 2.32, by which libstdc++ leaves out atomic instructions. */
HIDDEN char __libc_single_threaded = 0;
