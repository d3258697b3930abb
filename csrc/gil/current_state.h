/* SPDX-License-Identifier: Apache-2.0
 * Where CPython keeps the state of the thread that has the GIL. */
#ifndef GRAPHFFI_GIL_CURRENT_STATE_H_
#define GRAPHFFI_GIL_CURRENT_STATE_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A PyThreadState*, 0 while the GIL is not in use, which PyThreadState_Swap exchanges in CPython
 * 3.11; read and written atomically. NULL where this Python has it elsewhere: 3.12 has one for each
 * thread, and exchanges the GIL, too. Needs the GIL. */
uintptr_t* GraphffiFindCurrentState(void);

#ifdef __cplusplus
}
#endif

#endif /* GRAPHFFI_GIL_CURRENT_STATE_H_ */
