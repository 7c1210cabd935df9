import type { KubeClient, StatusUpdate } from '@conversation-operator/kube/client';
import type { KubeObject } from '@conversation-operator/kube/object';
import type { ComponentMutant } from './component-mutant.ts';

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

/** The answer to a write of the status that was not made. */
export const pretended = <T extends KubeObject>(stored: T, sent: StatusUpdate<T>): T =>
  Object.assign({}, stored, 'status' in sent ? { status: sent.status } : {});

/** A client with some of its calls replaced. */
export const client =
  (replace: (whole: KubeClient) => Partial<KubeClient>): NonNullable<ComponentMutant['client']> =>
  (whole) =>
    but(whole, replace(whole));
