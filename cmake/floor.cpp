// A floor of the house may have headers only; a library needs one object.
namespace thinwire::build {
[[maybe_unused]] static const int floor_has_an_object = 0;
}
