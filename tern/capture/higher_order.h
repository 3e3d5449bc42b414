// Operators that take functions, while they are captured: what a body sees of the operands, and what the
// operator gives for what its body gave. Nothing here has data.
#pragma once
#include "tern/ir/higher_order.h"
#include "tern/tensor/value.h"

namespace tern {
class ShapeEnv;
}

namespace tern::capture {

// The operands as one round of a body gets them: tensors of their own, slices of what is gone over, symbols
// for numbers that change from round to round. Throws where the first dimensions differ.
std::vector<Value> body_operands(std::string_view name, ir::Operands groups,
                                 const std::vector<Value>& operands, ShapeEnv& shapes);

// The k-th result of the operator, from the k-th of what the body gave. Throws where something carried
// changes its shape or dtype.
Value result_of_body(std::string_view name, ir::Operands groups, const std::vector<Value>& operands, size_t k,
                     const Value& given, ShapeEnv& shapes);

// For a value that two paths give: dims on which they differ are not known.
Value either(std::string_view name, const Value& a, const Value& b, ShapeEnv& shapes);

}  // namespace tern::capture
