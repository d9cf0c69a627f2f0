//===- ConvertRandom.cpp - Noise ------------------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Normalize/Binder.h"

#include <cmath>

using namespace mlir;
using namespace harmony;
using namespace harmony::normalize;

namespace {

/// Of the shape of the operand, whose elements do not matter. In evaluation it
/// is `mean`, so that nothing is random where there is no training. `draw` gets
/// the shape and the names of two independent streams.
void makeNoise(Binder &b, double mean,
               llvm::function_ref<Tensor(TensorBuilder &, ArrayRef<Extent>,
                                         StringRef, StringRef)>
                   draw) {
  TensorBuilder &t = b.build();
  Tensor like = b.input(0);
  if (!like)
    return;
  b.ignore("seed"); // --seed and the node's name are the seed
  Type type = t.getBuilder().getF32Type();
  if (!(b.attribute("dtype") ? b.integer("dtype", 0) == 1
                             : like.type() == type)) {
    b.refuse("makes elements of a type other than float32");
    return;
  }
  Tensor still = t.expand(t.scalar(type, mean), like.shape());
  if (t.evaluationOnly) {
    b.output(0, still);
    return;
  }
  std::string name = b.stableName();
  b.output(0, t.byMode(draw(t, like.shape(), name, name + ".angle"), still));
}

void convertRandomUniformLike(Binder &b) {
  double low = b.real("low", 0), high = b.real("high", 1);
  makeNoise(
      b, (low + high) / 2,
      [&](TensorBuilder &t, ArrayRef<Extent> shape, StringRef name, StringRef) {
        Tensor drawn = t.randomFraction(shape, name);
        return drawn
                   ? t.add(t.scale(drawn, high - low), t.scalarLike(drawn, low))
                   : drawn;
      });
}

/// Box and Muller (1958): the radius from one number, the angle from another.
void convertRandomNormalLike(Binder &b) {
  double mean = b.real("mean", 0), deviation = b.real("scale", 1);
  makeNoise(b, mean,
            [&](TensorBuilder &t, ArrayRef<Extent> shape, StringRef name,
                StringRef angleName) {
              Tensor fraction = t.randomFraction(shape, name),
                     angle = t.randomFraction(shape, angleName);
              if (!fraction || !angle)
                return Tensor();
              // In (0, 1], whose logarithm is finite.
              Tensor above = t.subtract(t.scalarLike(fraction, 1), fraction);
              Tensor radius =
                  t.unary(Unary::SquareRoot,
                          t.scale(t.unary(Unary::Logarithm, above), -2));
              Tensor cosine = t.unary(Unary::Cosine, t.scale(angle, 2 * M_PI));
              return t.add(t.scale(t.multiply(radius, cosine), deviation),
                           t.scalarLike(radius, mean));
            });
}

} // namespace

void harmony::normalize::addRandomConverters(ConverterTable &table) {
  table.onOp("RandomNormalLike", {1, 22}, convertRandomNormalLike);
  table.onOp("RandomUniformLike", {1, 22}, convertRandomUniformLike);
}
