import { randomUUID } from 'node:crypto';
import { StoreError, type StoreErrorCode } from '@conversation-operator/object-store/object-store';
import {
  errorOf,
  FindingCode,
  outcomeOf,
  type Finding,
  withValue,
  type Check,
  type Installation,
} from './check.ts';

export interface BucketFailure {
  readonly call: 'put' | 'get' | 'delete';
  readonly code: StoreErrorCode | 'changed';
  /** Error text of the store, without credentials. */
  readonly message: string;
}

export interface BucketFacts extends Installation {
  readonly bucket: string;
}

export function bucketFindings(
  failure: BucketFailure | undefined,
  facts: BucketFacts,
): readonly Finding[] {
  if (failure === undefined) return [];
  const { call, code, message } = failure;
  const remedies: Readonly<Record<BucketFailure['code'], string>> = {
    denied: `kubectl -n ${facts.releaseNamespace} create secret generic archive-credentials --from-literal=access-key-id=… --from-literal=secret-access-key=…`,
    missing: `aws s3 mb s3://${facts.bucket}`,
    invalid: withValue(facts, '--set archive.s3.region=REGION'),
    throttled: withValue(facts, '--set archive.s3.prefix=PREFIX'),
    unavailable: withValue(facts, '--set archive.s3.endpoint=https://STORE'),
    timeout: withValue(
      facts,
      '--set-json \'networkPolicies.archive.to=[{"ipBlock":{"cidr":"STORE/32"}}]\'',
    ),
    changed: withValue(facts, '--set archive.s3.prefix=PREFIX'),
  };
  return [
    errorOf(FindingCode.bucketUnusable, {
      cause: `A ${call} of an object in the bucket ${facts.bucket} fails: ${message}`,
      breaks: 'The history of conversations is lost with their sandboxes.',
      remedy: remedies[code],
    }),
  ];
}

export const bucketCheck: Check = {
  name: 'bucket',
  limitMs: 60_000,
  needsApiServer: false,
  run: async (scene, signal) => {
    const { bucket } = scene;
    if (bucket === undefined) return outcomeOf([], 'no bucket is set');
    const { store, name } = bucket;
    const key = `check/${randomUUID()}`;
    const body = Buffer.from(`conversation-operator check ${key}`);
    let call: BucketFailure['call'] = 'put';
    let failure: BucketFailure | undefined;
    try {
      await store.put(key, body, { signal });
      call = 'get';
      const read = await store.get(key, { signal });
      if (read?.equals(body) !== true)
        failure = { call, code: 'changed', message: 'another object comes back than was put.' };
      call = 'delete';
      await store.delete([key], { signal });
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof StoreError)) throw error;
      failure ??= { call, code: error.code, message: error.message };
    } finally {
      // An interrupted `put` may still create the object later, so the object is deleted as well.
      if (call !== 'delete' || signal.aborted)
        await store.delete([key], { signal: AbortSignal.timeout(5_000) }).catch(() => undefined);
    }
    return outcomeOf(
      bucketFindings(failure, { ...scene, bucket: name }),
      `put, got and deleted an object of ${name}`,
    );
  },
};
