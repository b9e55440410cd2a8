/* support/sanitized.h - is this test built with AddressSanitizer or ThreadSanitizer, by either compiler?
 *
 * Memory: a sanitizer's own is beyond any limit on the address space, and everything is slower. */
#ifndef FN_SUPPORT_SANITIZED_H
#define FN_SUPPORT_SANITIZED_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

#endif
