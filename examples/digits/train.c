/* SPDX-License-Identifier: Apache-2.0 */
/* Trains the network in C: `train DATA EPOCHS` prints the share of test images that it classifies
 * correctly. Links the library and libtvm_ffi.so, and nothing else. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/ffi/c_api.h>

int __tvm_ffi_step(void* self, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result);
int __tvm_ffi_classify(void* self, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result);

enum { kBatch = 64, kPixels = 64 };

struct split {
  int64_t count;
  float* images;
  int64_t* labels;
};

/* The result of a function that takes images and, if any, labels. */
static TVMFFIAny call(TVMFFISafeCallType function, struct split given) {
  int64_t shape[] = {given.count, 8, 8};
  DLTensor views[] = {{given.images, {kDLCPU, 0}, 3, {kDLFloat, 32, 1}, shape, NULL, 0},
                      {given.labels, {kDLCPU, 0}, 1, {kDLInt, 64, 1}, shape, NULL, 0}};
  TVMFFIAny args[2] = {{0}, {0}}, result = {0};
  for (int i = 0; i < 2; ++i) {
    args[i].type_index = kTVMFFIDLTensorPtr;
    args[i].v_ptr = &views[i];
  }
  if (function(NULL, args, given.labels == NULL ? 1 : 2, &result) != 0) {
    TVMFFIObjectHandle error = NULL;
    TVMFFIErrorMoveFromRaised(&error);
    const TVMFFIErrorCell* cell = TVMFFIErrorGetCellPtr(error);
    fprintf(stderr, "%.*s: %.*s\n", (int)cell->kind.size, cell->kind.data, (int)cell->message.size,
            cell->message.data);
    exit(1);
  }
  return result;
}

static void read_all(void* to, size_t size, size_t count, FILE* file) {
  if (fread(to, size, count, file) != count) {
    fprintf(stderr, "the file of images is too short\n");
    exit(1);
  }
}

static struct split read_split(int64_t count, FILE* file) {
  struct split read = {count, malloc((size_t)count * kPixels * sizeof(float)),
                       malloc((size_t)count * sizeof(int64_t))};
  if (read.images == NULL || read.labels == NULL) exit(1);
  read_all(read.images, kPixels * sizeof(float), (size_t)count, file);
  read_all(read.labels, sizeof(int64_t), (size_t)count, file);
  return read;
}

/* Puts images into another order. */
static void shuffle(struct split all) {
  for (int64_t i = all.count - 1; i > 0; --i) {
    const int64_t k = rand() % (i + 1), label = all.labels[i];
    float image[kPixels];
    memcpy(image, all.images + i * kPixels, sizeof(image));
    memcpy(all.images + i * kPixels, all.images + k * kPixels, sizeof(image));
    memcpy(all.images + k * kPixels, image, sizeof(image));
    all.labels[i] = all.labels[k];
    all.labels[k] = label;
  }
}

static double accuracy(struct split test) {
  const struct split images = {test.count, test.images, NULL};
  TVMFFIAny result = call(&__tvm_ffi_classify, images);
  const int64_t* classes = TVMFFITensorGetDLTensorPtr(result.v_obj)->data;
  int64_t correct = 0;
  for (int64_t i = 0; i < test.count; ++i) correct += classes[i] == test.labels[i];
  TVMFFIObjectDecRef(result.v_obj);
  return (double)correct / (double)test.count;
}

int main(int argc, char** argv) {
  FILE* file = argc == 3 ? fopen(argv[1], "rb") : NULL;
  if (file == NULL) {
    fprintf(stderr, "usage: %s DATA EPOCHS\n", argv[0]);
    return 2;
  }
  int64_t counts[2];
  read_all(counts, sizeof(*counts), 2, file);
  struct split training = read_split(counts[0], file), test = read_split(counts[1], file);
  fclose(file);
  for (int epoch = 0; epoch < atoi(argv[2]); ++epoch) {
    shuffle(training);
    for (int64_t begin = 0; begin + kBatch <= training.count; begin += kBatch) {
      const struct split batch = {kBatch, training.images + begin * kPixels,
                                  training.labels + begin};
      TVMFFIObjectDecRef(call(&__tvm_ffi_step, batch).v_obj);
    }
  }
  printf("%.3f\n", accuracy(test));
  free(training.images);
  free(training.labels);
  free(test.images);
  free(test.labels);
  return 0;
}
