// Scalars of the op vocabulary, part 2: functions for which vectors have instructions that
// compilers do not find. Each is a template over float or a vector of floats.
//
// Most have coefficients that depend on the argument. A vector's come from tables of 8 or 16
// floats, which processors keep in registers and look up at once (16 take AVX2 three instructions);
// loops call functors with vectors for them (near() in ops/schema/elementwise.h). Static, so that
// kernels of different instruction sets share no symbols of tables.
#pragma once

#include "ops/schema/scalar_base.h"

namespace facula::scalar {
namespace detail {

/// The polynomial with coefficients from the highest power down.
template <class T>
FACULA_FN T horner(T, T sum) {
  return sum;
}
template <class T, class... C>
FACULA_FN T horner(T x, T sum, T next, C... rest) {
  return horner(x, fma(sum, x, next), rest...);
}

/// x within (-inf, high] or [low, inf), NaN kept: the comparison is false for NaN, and x stands
/// last. One or two instructions on x86, whereas min of the vocabulary needs three.
FACULA_FN float at_most(float x, float high) { return high < x ? high : x; }
FACULA_FN float at_least(float x, float low) { return low > x ? low : x; }

// Adding 1.5 * 2^23 leaves x rounded to an integer in the lowest mantissa bits.
inline constexpr float kRound = 0x1.8p23f;

/// What follows serves floats and vectors of them alike: kernels have the same for vectors
/// (backends/cpu/kernels/lanes.h).
/// The one of 8 or 16 values that the lowest bits of `index` choose.
template <int kValues>
FACULA_FN float lookup(const float (&values)[kValues], uint32_t index) {
  return values[index & (kValues - 1)];
}
/// a where x has the sign bit, b elsewhere.
FACULA_FN float select_negative(float x, float a, float b) { return as_int(x) < 0 ? a : b; }
/// x where it is positive, zero where it has the sign bit.
FACULA_FN float positive_part(float x) { return as_float(max(as_int(x), 0)); }
/// As a signed integer.
FACULA_FN float to_float(uint32_t bits) { return static_cast<float>(static_cast<int32_t>(bits)); }

/// x = k + r with |r| <= 1/2, for a factor of 2^k: x beyond the exponents of floats may become the
/// next k for which that is zero or infinite.
template <class F>
struct NearestParts {
  F k, r;
};
FACULA_FN NearestParts<float> nearest_parts(float x) {
  const float within = at_most(at_least(x, -127.0f), 128.0f), k = (within + kRound) - kRound;
  return {k, within - k};
}
/// p * 2^k for p in [0.7, 1.5]; zero for k < -126. Beyond 2^127 it may be infinite.
FACULA_FN float times_power(float p, float k) {
  return p * as_float(as_bits(k + (kRound + 127)) << 23);
}

/// 2^r for |r| <= 1/2, within 1.1e-7 of itself.
template <class F>
FACULA_FN F rough_exp2_reduced(F r) {
  return horner(r, K<F>(0.00132645888), K<F>(0.00967161916), K<F>(0.0555073507), K<F>(0.240222409),
                K<F>(0.693147004), K<F>(1));
}
/// e^x, also of NaN, as a term of a sum: zero where that is no normal float. The relative error is
/// at most 2e-7 + 8e-8 |x|, about as much as x lost if something was subtracted from it.
template <class F>
FACULA_FN F exp_term(F x) {
  const auto [k, r] = nearest_parts(x * K<F>(1.44269504));
  return times_power(rough_exp2_reduced(r), k);
}

/// The polynomial whose coefficients, here from the lowest power up, are looked up.
template <class F, class Bits, int kCoefficients, int kValues>
FACULA_FN F looked_up(const float (&c)[kCoefficients][kValues], Bits index, F x) {
  F sum = lookup(c[kCoefficients - 1], index);
  for (int power = kCoefficients - 2; power >= 0; --power) {
    sum = fma(sum, x, lookup(c[power], index));
  }
  return sum;
}

/// tanh(x): a polynomial for each of 8 intervals of |x| up to 9, where tanh rounds to 1. |x| + 3 is
/// in [3, 12), of which the lowest bit of the exponent and two of the mantissa number intervals of
/// 1/2 below 1, 1 below 5 and 2 below 9. At a center tanh is within 2^-32 of a float, and distances
/// from it are exact.
template <class F>
FACULA_FN static F near_tanh(F x) {
  static constexpr float center[] = {6.0460887f,  7.9700799f,  0.0f,        0.740705073f,
                                     1.47977126f, 2.50568652f, 3.52051473f, 4.51875782f};
  static constexpr float c[][8] = {
      {0.999988794f, 0.999999762f, 0.0f, 0.629570961f, 0.901425123f, 0.986764669f, 0.998251081f,
       0.999762297f},
      {2.24095875e-05f, 4.81899178e-07f, 1.0f, 0.603640437f, 0.187432632f, 0.0262954943f,
       0.00349477888f, 0.000475349923f},
      {-2.24309242e-05f, -4.21042017e-07f, -3.65003825e-06f, -0.380034715f, -0.168954402f,
       -0.0259473063f, -0.00348869222f, -0.000475240202f},
      {1.49712541e-05f, 3.15251953e-07f, -0.333194852f, 0.0380423255f, 0.089830406f, 0.0168384667f,
       0.00231770542f, 0.000316684018f},
      {-7.37757409e-06f, -3.05305889e-07f, -0.0017392392f, 0.10275922f, -0.0247055013f,
       -0.00797003135f, -0.00115011237f, -0.000158094612f},
      {2.90698563e-06f, 8.39191188e-08f, 0.143219426f, -0.0638478547f, -0.0036316039f,
       0.00283773616f, 0.000453094079f, 6.30366703e-05f},
      {-1.14308727e-06f, 7.31963183e-08f, -0.027238898f, -0.00351151149f, 0.00806727726f,
       -0.000696040515f, -0.000151054744f, -2.16497901e-05f},
      {3.56377654e-07f, -1.37768525e-08f, -0.0222572032f, 0.0213174447f, -0.00382836885f,
       5.92869001e-05f, 4.18683594e-05f, 6.36535287e-06f}};
  const F a = at_most(abs(x), K<F>(0x1.1ffffep3));
  const auto index = as_bits(a + K<F>(3)) >> 21;
  return copysign(looked_up(c, index, a - lookup(center, index)), x);
}

/// erf(x) as tanh(x), in intervals of 1/4 below 1/2, 1/2 below 5/2 and 1 below 9/2. In the first
/// the polynomial is what comes on top of |x|, where the others begin with a coefficient: that is
/// larger than distances from the center.
template <class F>
FACULA_FN static F near_erf(F x) {
  static constexpr float center[] = {0.744618475f, 1.2423315f, 1.74484384f, 2.24766994f,
                                     2.9859004f,   4.0297308f, 0.0f,        0.368646473f};
  static constexpr float first[] = {0.707681715f, 0.921068907f, 0.986397088f, 0.998520553f,
                                    0.99997586f,  1.0f,         0.0f,         0.397873431f};
  static constexpr float c[][8] = {
      {0.648123682f, 0.241085187f, 0.0537344627f, 0.00721755205f, 0.000152196837f, 1.07054866e-07f,
       0.128379166f, 0.984995723f},
      {-0.482604414f, -0.299507916f, -0.0937587321f, -0.016222585f, -0.000452292472f,
       -9.79347874e-07f, -5.05514095e-07f, -0.363115311f},
      {0.0234694574f, 0.167683765f, 0.0911713913f, 0.0219050478f, 0.000828138902f, 1.06082257e-06f,
       -0.37609449f, -0.23909165f},
      {0.152087986f, -0.00430960814f, -0.0482581928f, -0.0192139652f, -0.00111753657f,
       3.92133188e-06f, -0.000612252159f, 0.165122122f},
      {-0.0504028797f, -0.047726471f, 0.005689329f, 0.0106246527f, 0.00125732215f, 3.42637486e-06f,
       0.117898874f, 0.0473119393f},
      {-0.0270638205f, 0.0204868913f, 0.00907341484f, -0.00275949761f, -0.000810773112f,
       -1.93209635e-05f, -0.0189912375f, -0.0502003133f}};
  const F a = at_most(abs(x), K<F>(0x1.1ffffep2));
  const auto index = as_bits(a + K<F>(1.5)) >> 21;
  const F h = a - lookup(center, index);
  return copysign(fma(looked_up(c, index, h), h, at_least(h, lookup(first, index))), x);
}

/// erfc(x) for |x| < 4, where F is float or a vector: a polynomial for each of 16 intervals of |x|,
/// narrower where the logarithm falls faster. At a center erfc is within 2^-31 of a float and its
/// slope within 2^-27, and the distances from it are exact.
inline constexpr float kNearErfc = 4.0f;
template <class F>
FACULA_FN static F near_erfc(F x) {
  static constexpr float center[16] = {0.0f,        0.745838165f, 1.09571457f, 1.47356033f,
                                       1.72378922f, 2.02614975f,  2.28831863f, 2.49060822f,
                                       2.73693085f, 2.90921783f,  3.1260643f,  3.27299118f,
                                       3.44190979f, 3.61520386f,  3.80853653f, 3.92632294f};
  static constexpr float c[][16] = {
      {1.0f, 0.291528493f, 0.1212437f, 0.0371666253f, 0.0147766983f, 0.00416471669f, 0.00121144683f,
       0.000427897321f, 0.000108565706f, 3.88431326e-05f, 9.82804067e-06f, 3.67953248e-06f,
       1.12964244e-06f, 3.17636363e-07f, 7.20093141e-08f, 2.8135636e-08f},
      {-1.1283797f, -0.646945715f, -0.339660734f, -0.128657967f, -0.0578057468f, -0.0186017305f,
       -0.00600225572f, -0.00228281249f, -0.000629862945f, -0.0002381128f, -6.43292587e-05f,
       -2.51239562e-05f, -8.08127879e-06f, -2.37879567e-06f, -5.66284712e-07f, -2.27701776e-07f},
      {2.72173165e-05f, 0.482517868f, 0.372171521f, 0.189585194f, 0.0996449888f, 0.0376898833f,
       0.0137350699f, 0.0056855916f, 0.00172389275f, 0.00069272262f, 0.00020109769f,
       8.22304864e-05f, 2.78150037e-05f, 8.59983447e-06f, 2.15671548e-06f, 8.94029824e-07f},
      {0.375659347f, -0.0243341643f, -0.158629522f, -0.143357843f, -0.0952442065f, -0.044710353f,
       -0.0189527031f, -0.0086794151f, -0.00293554948f, -0.00126411952f, -0.000397671451f,
       -0.000171043692f, -6.11275464e-05f, -1.99325168e-05f, -5.28781902e-06f, -2.26409747e-06f},
      {0.00373283727f, -0.152014136f, -0.0371949896f, 0.0424456559f, 0.0488612577f, 0.0327354558f,
       0.0171079896f, 0.00891324785f, 0.00344157056f, 0.00160758442f, 0.000554252823f,
       0.000252492406f, 9.59390527e-05f, 3.31594129e-05f, 9.3462977e-06f, 4.14714214e-06f},
      {-0.128155127f, 0.0545864552f, 0.0631972477f, 0.0180695765f, -0.00494365534f, -0.0130352117f,
       -0.00997366942f, -0.00628488697f, -0.00287944986f, -0.00149875786f, -0.000570003642f,
       -0.000281375425f, -0.000114672883f, -4.23644015e-05f, -1.24107091e-05f, -5.89379533e-06f},
      {0.031657327f, 0.0395433679f, -0.0119055361f, -0.0209469106f, -0.00952741131f,
       -0.000186524936f, 0.00290996465f, 0.00284391595f, 0.0018960397f, 0.0010549376f,
       0.000524397125f, 0.000241097616f, 0.000104573781f, 4.28486564e-05f, 1.70326512e-05f,
       6.57092414e-06f}};
  const F a = abs(x);
  const auto index = as_bits(fma(a, fma(a, K<F>(0.6953125), K<F>(1.09375)), K<F>(kRound)));
  const F h = a - lookup(center, index);
  const F y = looked_up(c, index, h);
  return select_negative(x, K<F>(2) - y, y);
}

/// x * Phi(x) = max(x, 0) - |x| * Phi(-|x|): a polynomial for each of 7 intervals of |x| below 6,
/// and zero beyond. GELU_ERROR
template <class F>
FACULA_FN static F near_gelu(F x) {
  static constexpr float center[] = {0.0f,        0.944404066f, 1.83947158f, 2.76411581f,
                                     3.69862151f, 4.63862276f,  5.55915785f, 6.46153831f};
  static constexpr float c[][8] = {
      {0.0f, 0.162892327f, 0.060560789f, 0.00788841024f, 0.00040088169f, 8.13471979e-06f,
       7.53486731e-08f, 0.0f},
      {0.5f, -0.0687279776f, -0.102238208f, -0.0213223584f, -0.00147073809f, -3.76005737e-05f,
       -4.1820644e-07f, 0.0f},
      {-0.398942381f, -0.141511127f, 0.0508345775f, 0.0246665366f, 0.00249331864f, 8.2792154e-05f,
       1.12235e-06f, 0.0f},
      {4.0001969e-06f, 0.124952674f, 0.0138868634f, -0.0146681648f, -0.00254797679f,
       -0.000114845643f, -1.93019241e-06f, 0.0f},
      {0.06643641f, -0.0153659293f, -0.0252264831f, 0.00323884259f, 0.00169818418f, 0.000111674803f,
       2.38837833e-06f, 0.0f},
      {0.000340185128f, -0.0180853345f, 0.00872336701f, 0.0015456751f, -0.000716061797f,
       -8.05488089e-05f, -2.33212177e-06f, 0.0f},
      {-0.0110749854f, 0.0051484541f, 0.00111980236f, -0.00139736291f, 0.000132147063f,
       4.4336095e-05f, 1.87718672e-06f, 0.0f},
      {0.00179184915f, 0.00170705596f, -0.00138775422f, 0.000366036402f, 2.67410542e-05f,
       -1.55491416e-05f, -9.1894492e-07f, 0.0f}};
  const F a = at_most(abs(x), K<F>(6.4615383));
  const auto index = as_bits(fma(a, K<F>(1.0833334), K<F>(kRound)));
  return positive_part(x) - looked_up(c, index, a - lookup(center, index));
}

/// log(1 + x) for 1 + x in [2^-126, 2^125), which is m * 2^k with m in [0.734, 1.469). In each of
/// 16 intervals of m an inverse of the middle, whose logarithm is within 2^-37 of a float, leaves
/// |r| < 1/32 for log(1 + r); the inverse of that around 1 is 1, so that small x keep their
/// accuracy.
template <class F>
FACULA_FN static F near_log1p(F x) {
  static constexpr float inverses[16] = {1.33256745f,  1.2817775f,   1.23096991f,  1.18685889f,
                                         1.14280593f,  1.10548306f,  1.06807375f,  1.03081703f,
                                         1.0f,         0.955204308f, 0.887165606f, 0.843205512f,
                                         0.800120592f, 0.761999667f, 0.728164136f, 0.696647167f};
  static constexpr float logarithms[16] = {
      -0.287107497f, -0.248247787f,  -0.2078024f,  -0.171310231f, -0.133486584f, -0.100282393f,
      -0.065856792f, -0.0303517226f, 0.0f,         0.0458300263f, 0.119723611f,  0.170544565f,
      0.222992823f,  0.271809161f,   0.317228794f, 0.361476213f};
  const F u = x + K<F>(1), lost = x - (u - K<F>(1));  // u + lost = 1 + x
  const auto offset = as_bits(u) - 0x3f3c0000u;
  const auto k = offset & 0xff800000u;  // where the exponent of a float stands
  const auto index = offset >> 19;
  const F inverse = as_float(as_bits(lookup(inverses, index)) - k);
  const F r = fma(lost, inverse, fma(u, inverse, K<F>(-1)));
  const F p =
      horner(r, K<F>(0.195215702), K<F>(-0.250218272), K<F>(0.333337426), K<F>(-0.49999994));
  const F base = fma(to_float(k), K<F>(0x1p-23 * 0.693147182), lookup(logarithms, index));
  return copysign(base + fma(r * r, p, r), x);
}

}  // namespace detail
}  // namespace facula::scalar
