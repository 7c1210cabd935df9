import { SlotIndex } from '../../../src/controllers/admission/slot-index.ts';
import { classify } from '../../../src/quota/classify.ts';
import { aQuota, aSandbox } from '../../support/builders.ts';

const indexAt = (clock: { now: number }) =>
  new SlotIndex({
    now: () => clock.now,
    classify: (sandbox) => classify({ sandbox, conversations: [], now: clock.now }),
    onChange: () => undefined,
    onOrphaned: () => undefined,
  });

describe('the index forgets a namespace', () => {
  it('with its last sandbox', () => {
    const index = indexAt({ now: 0 });
    const sandbox = aSandbox({ name: 'one' });
    index.observe(sandbox);
    expect([...index.namespaces]).toEqual(['default']);
    index.forget(sandbox);
    expect([...index.namespaces]).toEqual([]);
  });

  it('once the pod of its last sandbox is gone too', () => {
    const index = indexAt({ now: 0 });
    const sandbox = aSandbox({ name: 'one', status: { replicas: 1 } });
    index.observe(sandbox);
    index.forget(sandbox);
    expect([...index.namespaces]).toEqual(['default']);
    const [orphaned] = index.orphanedSlots('default', 'one');
    if (orphaned !== undefined) index.removeOrphaned(orphaned);
    expect([...index.namespaces]).toEqual([]);
  });

  it('after the grace of its last quota', () => {
    const clock = { now: 0 };
    const index = indexAt(clock);
    const quota = aQuota('default', {});
    index.observeQuota(quota);
    index.forgetQuota(quota);
    index.snapshot('default');
    expect([...index.namespaces]).toEqual(['default']);
    clock.now = 5_000;
    index.snapshot('default');
    expect([...index.namespaces]).toEqual([]);
  });

  it('that was only asked for', () => {
    const index = indexAt({ now: 0 });
    index.snapshot('other');
    expect([...index.namespaces]).toEqual([]);
  });
});
