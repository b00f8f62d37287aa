// A layer may have headers only; a library needs one object.
namespace thinwire::build {
[[maybe_unused]] static const int layer_has_an_object = 0;
}
