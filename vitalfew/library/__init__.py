"""The classes of the public API, which `import vitalfew` offers by name."""
