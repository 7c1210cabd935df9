import type { Clock } from '@conversation-operator/base/clock';
import {
  type ObjectStore,
  StoreError,
  type StoreErrorCode,
} from '@conversation-operator/object-store/object-store';
import type { Metrics } from '../observability/metrics.ts';

type Operation = 'put' | 'get' | 'delete' | 'list';
type Result = 'success' | 'aborted' | StoreErrorCode;

/** Time for which the store counts as failing after a failed request. */
const failureMs = 30_000;

export interface MeasuredStore extends ObjectStore {
  /** Whether the latest request failed less than 30 s ago: the next request may fail as well. */
  readonly isFailing: boolean;
}

export function measuredStore(
  store: ObjectStore,
  { clock, metrics }: { readonly clock: Clock; readonly metrics: Metrics },
): MeasuredStore {
  let failedAt = -Infinity;

  const measured = async <T>(operation: Operation, call: Promise<T>): Promise<T> => {
    const startedAt = clock.monotonic();
    const end = (result: Result) => {
      metrics.archiveStoreRequests.inc({ operation, result });
      metrics.archiveStoreSeconds.observe({ operation }, (clock.monotonic() - startedAt) / 1000);
    };
    try {
      const answer = await call;
      failedAt = -Infinity;
      end('success');
      return answer;
    } catch (error) {
      if (error instanceof StoreError) {
        failedAt = clock.monotonic();
        end(error.code);
      } else end('aborted');
      throw error;
    }
  };

  return {
    get isFailing() {
      return clock.monotonic() - failedAt < failureMs;
    },
    put: async (key, body, options) => {
      await measured('put', store.put(key, body, options));
      metrics.archiveStoreBytes.inc({ operation: 'put' }, body.length);
    },
    get: async (key, options) => {
      const body = await measured('get', store.get(key, options));
      if (body !== undefined) metrics.archiveStoreBytes.inc({ operation: 'get' }, body.length);
      return body;
    },
    delete: (keys, options) => measured('delete', store.delete(keys, options)),
    list: (options) => measured('list', store.list(options)),
    close: () => store.close(),
  };
}
