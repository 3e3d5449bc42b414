// Owned<T> has one owner, Shared<T> is counted: std::unique_ptr and std::shared_ptr without <memory>, which
// includes <ostream> and costs a header more than all of tensor/. They convert from those and to them.
#pragma once
#include <cstddef>
#include <type_traits>
#include <utility>

#include "tern/base/counter.h"

namespace tern {

namespace details {
template <class P>
concept StdUnique = requires {
  typename P::deleter_type;
  typename P::pointer;
};
template <class P>
concept StdShared = requires {
  typename P::weak_type;
  typename P::element_type;
};
}  // namespace details

template <class T>
class Owned {
 public:
  Owned() = default;
  Owned(std::nullptr_t) {}
  explicit Owned(T* p) : p_(p) {}
  Owned(Owned&& o) noexcept : p_(o.release()) {}
  template <class U>
  requires std::is_convertible_v<U*, T*> Owned(Owned<U>&& o)
  noexcept : p_(o.release()) {}
  template <details::StdUnique P>
  Owned(P&& p) : p_(p.release()) {}
  Owned& operator=(Owned o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~Owned() {
    static_assert(sizeof(T) > 0, "the class must be complete where its owner ends");
    delete p_;
  }
  template <details::StdUnique P>
  operator P() && {
    return P(release());
  }

  T* get() const { return p_; }
  T* operator->() const { return p_; }
  T& operator*() const { return *p_; }
  explicit operator bool() const { return p_; }
  T* release() { return std::exchange(p_, nullptr); }
  void reset() { *this = Owned(); }
  friend bool operator==(const Owned& a, const T* b) { return a.p_ == b; }

 private:
  T* p_ = nullptr;
};
template <class T, class... A>
Owned<T> new_owned(A&&... args) {
  return Owned<T>(new T(std::forward<A>(args)...));
}

namespace details {

struct SharedBlock {
  Counter refs;
  void (*end)(SharedBlock* self);  // ends the object and the block
};
template <class T>
struct SharedInside : SharedBlock {
  T object;
  template <class... A>
  explicit SharedInside(A&&... args)
      : SharedBlock{{}, [](SharedBlock* self) { delete static_cast<SharedInside*>(self); }},
        object(std::forward<A>(args)...) {}
};
template <class T, class End>
struct SharedOutside : SharedBlock {
  T* object;
  [[no_unique_address]] End end_object;
  SharedOutside(T* o, End e)
      : SharedBlock{{},
                    [](SharedBlock* self) {
                      auto* block = static_cast<SharedOutside*>(self);
                      block->end_object(block->object);
                      delete block;
                    }},
        object(o),
        end_object(std::move(e)) {}
};

}  // namespace details

template <class T>
class Shared {
 public:
  Shared() = default;
  Shared(std::nullptr_t) {}
  template <class U>
  explicit Shared(U* p) : Shared(p, [](U* object) { delete object; }) {}
  template <class U, class End>
  requires requires(End end, U* p) { end(p); }  // ends it
  Shared(U* p, End end) : p_(p), block_(new details::SharedOutside<U, End>(p, std::move(end))) { tell(p); }
  template <class U>
  Shared(const Shared<U>& owner, T* p) : Shared(p, owner.block_) {}  // shares the owner, points elsewhere
  template <class U>
  requires std::is_convertible_v<U*, T*> Shared(Owned<U>&& o) {
    if (o) *this = Shared(o.release());
  }
  template <details::StdShared P>
  Shared(P p) {
    if (auto* object = p.get()) *this = Shared(object, [kept = std::move(p)](auto*) {});
  }
  Shared(const Shared& o) : Shared(o.p_, o.block_) {}
  Shared(Shared&& o) noexcept : p_(std::exchange(o.p_, nullptr)), block_(std::exchange(o.block_, nullptr)) {}
  template <class U>
  requires std::is_convertible_v<U*, T*> Shared(const Shared<U>& o) : Shared(o.p_, o.block_) {}
  template <class U>
  requires std::is_convertible_v<U*, T*> Shared(Shared<U>&& o)
  noexcept : p_(std::exchange(o.p_, nullptr)), block_(std::exchange(o.block_, nullptr)) {}
  Shared& operator=(Shared o) noexcept {
    std::swap(p_, o.p_);
    std::swap(block_, o.block_);
    return *this;
  }
  ~Shared() {
    if (block_ && block_->refs.drop()) block_->end(block_);
  }
  template <details::StdShared P>
  operator P() const {
    return p_ ? P(p_, [kept = *this](auto*) {}) : P();
  }

  T* get() const { return p_; }
  T* operator->() const { return p_; }
  std::add_lvalue_reference_t<T> operator*() const { return *p_; }
  explicit operator bool() const { return p_; }
  uint32_t use_count() const { return block_ ? block_->refs.load() : 0; }
  void reset() { *this = Shared(); }
  friend bool operator==(const Shared& a, const Shared& b) { return a.p_ == b.p_; }
  friend bool operator==(const Shared& a, std::nullptr_t) { return !a.p_; }

 private:
  template <class U>
  friend class Shared;
  template <class U>
  friend class SharedFromThis;
  template <class U, class... A>
  friend Shared<U> new_shared(A&&... args);
  Shared(T* p, details::SharedBlock* block) : p_(p), block_(block) {
    if (block_) block_->refs.add();
  }
  template <class U>
  void tell(U* p) {
    if constexpr (requires { p->shared_block_; }) p->shared_block_ = block_;
  }

  T* p_ = nullptr;
  details::SharedBlock* block_ = nullptr;
};
template <class T, class... A>
Shared<T> new_shared(A&&... args) {
  auto* block = new details::SharedInside<std::remove_const_t<T>>(std::forward<A>(args)...);
  Shared<T> made;
  made.p_ = &block->object;
  made.block_ = block;
  made.tell(&block->object);
  return made;
}

// What an object derives from that is always shared and hands out its own pointer.
template <class T>
class SharedFromThis {
 public:
  SharedFromThis() = default;
  SharedFromThis(const SharedFromThis&) {}  // a copy has owners of its own
  SharedFromThis& operator=(const SharedFromThis&) { return *this; }
  Shared<T> shared_from_this() { return Shared<T>(static_cast<T*>(this), shared_block_); }

 private:
  template <class U>
  friend class Shared;
  details::SharedBlock* shared_block_ = nullptr;
};

}  // namespace tern
