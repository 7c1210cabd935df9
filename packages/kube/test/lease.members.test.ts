import type { Lease } from '../src/core.ts';
import { LeaseMembers, heldSpec } from '../src/lease.ts';
import { VirtualClock } from '../../../test/support/virtual-clock.ts';

const annotation = 'example/members';
const holder = 'group';

function aMember(clock: VirtualClock, identity: string): LeaseMembers {
  return new LeaseMembers({ holder, annotation, identity, clock });
}

const leaseWith = (annotations: Readonly<Record<string, string>>, by = holder): Lease => ({
  apiVersion: 'coordination.k8s.io/v1',
  kind: 'Lease',
  metadata: {
    namespace: 'system',
    name: 'operator',
    uid: 'lease',
    resourceVersion: '1',
    creationTimestamp: '2030-01-01T00:00:00Z',
    annotations,
  },
  spec: { holderIdentity: by },
});

describe('LeaseMembers', () => {
  it('counts the members that renew', async () => {
    const clock = new VirtualClock();
    const [one, two] = [aMember(clock, 'one'), aMember(clock, 'two')];
    let lease = leaseWith(two.joined(leaseWith(one.joined(undefined))));
    one.observe(lease);
    expect(one.live).toEqual(['two']);
    two.observe(leaseWith(one.joined(lease)));
    expect(two.live).toEqual(['one', 'two']);
    await clock.advance(10_000);
    lease = leaseWith(one.joined(lease));
    one.observe(lease);
    expect(one.live).toEqual(['one', 'two']);
    await clock.advance(6_000);
    expect(one.live).toEqual(['one']);
    expect(JSON.parse(one.joined(lease)[annotation] ?? '')).toEqual({ one: 4 });
  });

  it('leaves the Lease to the other members, and releases it as the last one', () => {
    const clock = new VirtualClock();
    const [one, two] = [aMember(clock, 'one'), aMember(clock, 'two')];
    const first = leaseWith({ other: 'kept', ...one.joined(undefined) });
    two.observe(first);
    const lease = leaseWith(two.joined(first));
    one.observe(lease);
    const left = one.left(lease) ?? {};
    expect(left).toEqual({ other: 'kept', [annotation]: '{"two":1}' });
    two.observe(leaseWith(left));
    expect(two.left(leaseWith(left))).toBeUndefined();
  });

  it.each([
    ['of another holder', leaseWith({ [annotation]: '{"one":1}' }, 'another')],
    ['that no JSON names', leaseWith({ [annotation]: '{' })],
    ['without a number', leaseWith({ [annotation]: '{"one":"1"}' })],
    ['of no object', leaseWith({ [annotation]: 'null' })],
    ['of no Lease', undefined],
  ])('knows no members %s', (_case, lease) => {
    const member = aMember(new VirtualClock(), 'two');
    member.observe(lease);
    expect(member.live).toEqual([]);
  });
});

describe('heldSpec', () => {
  it.each([
    ['2029-12-31T23:59:59.999999Z', '2030-01-01T00:00:00.000000Z'],
    ['2030-01-01T00:00:00.000000Z', '2030-01-01T00:00:00.000001Z'],
    ['2030-01-01T00:00:00.000999Z', '2030-01-01T00:00:00.001000Z'],
    ['2030-01-02T00:00:00.123456Z', '2030-01-02T00:00:00.123457Z'],
    ['no time', '2030-01-01T00:00:00.000000Z'],
  ])('renews a Lease of %s at a later time', (renewTime, expected) => {
    const spec = heldSpec(
      { holderIdentity: holder, renewTime },
      { holder, durationMs: 15_000, clock: new VirtualClock() },
    );
    expect(spec.renewTime).toBe(expected);
  });
});
