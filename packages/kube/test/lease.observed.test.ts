import { ObservedLease } from '../src/lease.ts';
import { VirtualClock } from '../../../test/support/virtual-clock.ts';

const leaseOf = (spec: object) => ({
  apiVersion: 'coordination.k8s.io/v1',
  kind: 'Lease',
  metadata: { name: 'operator', namespace: 'system', uid: 'u', resourceVersion: '1' },
  spec,
});

it.each([
  ['its own duration', { leaseDurationSeconds: 20 }, 20_000],
  ['the duration of the reader', {}, 15_000],
])('expires after %s without a change, neither earlier nor later', async (_what, more, ms) => {
  const clock = new VirtualClock();
  const observed = new ObservedLease({ clock, leaseDurationMs: 15_000 });
  const lease = leaseOf({ holderIdentity: 'one', ...more });
  observed.observe(lease as Parameters<ObservedLease['observe']>[0]);
  await clock.advance(ms - 1);
  expect(observed.holder).toBe('one');
  await clock.advance(1);
  expect(observed.holder).toBeUndefined();
});
