// Whether a sanitizer watches. Allocators that recycle memory hide overruns and uses after the end from it;
// under one they ask the system for every block.
#pragma once

namespace tern {

#if defined(__has_feature)
#define TERN_HAS_FEATURE(x) __has_feature(x)
#else
#define TERN_HAS_FEATURE(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || TERN_HAS_FEATURE(address_sanitizer) || \
    TERN_HAS_FEATURE(thread_sanitizer)
inline constexpr bool memory_is_watched = true;
#else
inline constexpr bool memory_is_watched = false;
#endif
#undef TERN_HAS_FEATURE

}  // namespace tern
