/** Changes something for all there is of a class. Returns what restores it. */
export type Patch = () => () => void;

type Bound<F> = F extends (...args: infer A) => infer R ? (...args: A) => R : never;
type Replacement<T, F> = F extends (...args: infer A) => infer R
  ? (self: T, original: Bound<F>, ...args: A) => R
  : never;

/** Another method in the place of one of a class; `original` is that one, bound to the object. */
export function patched<T extends object, K extends keyof T & string>(
  prototype: T,
  method: K,
  replacement: Replacement<T, T[K]>,
): Patch {
  return () => {
    const descriptor = descriptorOf(prototype, method);
    const original = descriptor.value as (this: T, ...args: unknown[]) => unknown;
    const replace = replacement as (self: T, original: unknown, ...args: unknown[]) => unknown;
    Object.defineProperty(prototype, method, {
      ...descriptor,
      value(this: T, ...args: unknown[]) {
        return replace(this, original.bind(this), ...args);
      },
    });
    return () => Object.defineProperty(prototype, method, descriptor);
  };
}

/** The same for a getter. */
export function patchedGetter<T extends object, K extends keyof T & string>(
  prototype: T,
  property: K,
  replacement: (self: T, original: T[K]) => T[K],
): Patch {
  return () => {
    const descriptor = descriptorOf(prototype, property);
    Object.defineProperty(prototype, property, {
      ...descriptor,
      get(this: T) {
        return replacement(this, descriptor.get?.call(this) as T[K]);
      },
    });
    return () => Object.defineProperty(prototype, property, descriptor);
  };
}

function descriptorOf(prototype: object, name: string): PropertyDescriptor {
  const descriptor = Object.getOwnPropertyDescriptor(prototype, name);
  if (descriptor === undefined)
    throw new Error(`${prototype.constructor.name} has no ${name} of its own`);
  return descriptor;
}
