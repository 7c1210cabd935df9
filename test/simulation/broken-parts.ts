import type { KubeClient } from '../../src/kube/client.ts';
import type { Breakage } from './operator-process.ts';

/** The same object with some methods replaced; the others still find their own `this`. */
export function but<T extends object>(whole: T, replaced: Partial<T>): T {
  return new Proxy(whole, {
    get(target, key): unknown {
      const own: unknown = Reflect.get(replaced, key);
      if (own !== undefined) return own;
      const value: unknown = Reflect.get(target, key, target);
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });
}

/** A client with some of its calls replaced. */
export const client =
  (replace: (whole: KubeClient) => Partial<KubeClient>): NonNullable<Breakage['client']> =>
  (whole) =>
    but(whole, replace(whole));
