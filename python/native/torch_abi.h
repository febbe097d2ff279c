/*
 * The part of torch's stable C interface that is used, from torch 2.10 on
 * (torch/csrc/stable/c/shim.h and torch/csrc/inductor/aoti_torch/c/shim.h describe the functions).
 * It is looked up in the process that has loaded torch, so building needs nothing of torch.
 */
#ifndef ECO_TORCH_ABI_H
#define ECO_TORCH_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct torch_tensor torch_tensor; /* a handle; its holder deletes it */
typedef struct torch_list torch_list;
typedef struct torch_string torch_string;
typedef struct torch_library torch_library;
typedef uint64_t torch_value; /* an argument or a result of an operator */
/* Takes ownership of its arguments on the stack, and leaves its results there. */
typedef void torch_kernel(torch_value *stack, uint64_t arguments, uint64_t results);

enum { TORCH_OK = 0 };
/* The version of the interface that this code uses: 2.10. */
#define TORCH_ABI ((uint64_t)2 << 56 | (uint64_t)10 << 48)

/* clang-format off */
/* Name in torch, arguments; all return int32_t, TORCH_OK or an error. */
#define TORCH_FUNCTIONS(f) \
    f(aoti_torch_library_init_def, \
      (const char *space, const char *file, uint32_t line, torch_library **library)) \
    f(aoti_torch_library_init_impl, \
      (const char *space, const char *key, const char *file, uint32_t line, \
       torch_library **library)) \
    f(aoti_torch_library_def, (torch_library *library, const char *schema)) \
    f(torch_library_impl, \
      (torch_library *library, const char *name, torch_kernel *kernel, uint64_t version)) \
    f(torch_new_list_reserve_size, (size_t size, torch_list **list)) \
    f(torch_list_size, (torch_list *list, size_t *size)) \
    f(torch_list_get_item, (torch_list *list, size_t index, torch_value *item)) \
    f(torch_list_push_back, (torch_list *list, torch_value item)) \
    f(torch_delete_list, (torch_list *list)) \
    f(aoti_torch_empty_strided, \
      (int64_t rank, const int64_t *sizes, const int64_t *strides, int32_t type, \
       int32_t device_type, int32_t device, torch_tensor **made)) \
    f(aoti_torch__reinterpret_tensor, \
      (torch_tensor *tensor, int64_t rank, const int64_t *sizes, const int64_t *strides, \
       int64_t offset, torch_tensor **made)) \
    f(aoti_torch_delete_tensor_object, (torch_tensor *tensor)) \
    f(aoti_torch_get_data_ptr, (torch_tensor *tensor, void **data)) \
    f(aoti_torch_get_dim, (torch_tensor *tensor, int64_t *rank)) \
    f(aoti_torch_get_sizes, (torch_tensor *tensor, int64_t **sizes)) \
    f(aoti_torch_get_dtype, (torch_tensor *tensor, int32_t *type)) \
    f(aoti_torch_get_device_type, (torch_tensor *tensor, int32_t *device_type)) \
    f(aoti_torch_get_device_index, (torch_tensor *tensor, int32_t *device)) \
    f(aoti_torch_is_contiguous, (torch_tensor *tensor, bool *dense)) \
    f(aoti_torch_create_tensor_from_blob, \
      (void *data, int64_t rank, const int64_t *sizes, const int64_t *strides, int64_t offset, \
       int32_t type, int32_t device_type, int32_t device, torch_tensor **made)) \
    f(aoti_torch_cpu_addmm_out, \
      (torch_tensor *out, torch_tensor *added, torch_tensor *left, torch_tensor *right, \
       double beta, double alpha)) \
    f(torch_parallel_for, \
      (int64_t begin, int64_t end, int64_t grain, void (*work)(int64_t, int64_t, void *), \
       void *data)) \
    f(aoti_torch_new_tensor_handle, (torch_tensor *tensor, torch_tensor **same)) \
    f(aoti_torch_copy_, (torch_tensor *to, torch_tensor *from, int32_t later)) \
    f(aoti_torch_zero_, (torch_tensor *tensor)) \
    f(torch_get_num_threads, (uint32_t *count)) \
    f(torch_string_c_str, (torch_string *string, const char **text)) \
    f(torch_string_length, (torch_string *string, size_t *bytes)) \
    f(torch_delete_string, (torch_string *string))
/* clang-format on */

#define TORCH_MEMBER(name, arguments) int32_t(*name) arguments;
struct torch_abi {
    TORCH_FUNCTIONS(TORCH_MEMBER)
};
#undef TORCH_MEMBER

extern struct torch_abi torch; /* torch_abi.c */

/* torch's numbers of types, in the order of ecornn_type, and of device kinds. */
struct torch_numbers {
    int32_t type[4], byte, int32;
    int32_t device[2]; /* CPU, CUDA */
};
extern struct torch_numbers torch_number;

/* torch's number of an ecornn_type, which begin at 1. */
static inline int32_t torch_type(int64_t type)
{
    return torch_number.type[type - 1];
}

/* Looks up all functions; false: this torch lacks one. */
bool torch_abi_find(void);

/* Takes what an optional argument holds; false: nothing.  Once for each argument. */
bool torch_take(torch_value optional, torch_value *value);
/* Raises torch's exception: does not return, unless this torch has no such function. */
void torch_raise(const char *text);

/* torch's current stream on that GPU; false: this torch has no CUDA. */
bool torch_stream(int32_t device, void **stream);

#endif /* ECO_TORCH_ABI_H */
