// Functions and objects of one Unit in another: copied with all they call and hold, so that the new Unit
// stands alone and can be saved. Tensors are shared, classes get new names where theirs are taken.
#pragma once
#include <unordered_map>

#include "tern/script/unit.h"

namespace tern::script {

class Adoption {
 public:
  explicit Adoption(Unit& into) : into_(into) {}
  // Under that name. The same function, adopted again, is the same; throws when another has the name.
  Function& function(const Function& from, Symbol name);
  // Objects anew, the same object once; containers copied. What belongs to the unit already is left as it is.
  tern::Value value(const tern::Value& v);
  // A type as the unit names it.
  const ir::Type* type(const ir::Type* t, Unit* from);

 private:
  Function& any_function(const Function& from);
  ClassType& class_of(ClassType& from);
  void fill(Function& made, const Function& from);
  void rename(ir::Block& block, Unit* from);

  Unit& into_;
  std::unordered_map<const Function*, Function*> functions_;
  std::unordered_map<const ClassType*, ClassType*> classes_;
  std::unordered_map<const Box*, tern::Value> objects_;
};

}  // namespace tern::script
