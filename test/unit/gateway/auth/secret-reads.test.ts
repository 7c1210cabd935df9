import { SecretReads } from '../../../../src/gateway/auth/secret-reads.ts';
import { checkedAudit } from '../../../support/checked-audit.ts';
import { aSandbox } from '../../../support/builders.ts';
import { recordingLogger } from '../../../support/recording-logger.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

describe('reads of secrets', () => {
  const sandbox = aSandbox({ name: 'sbx-one', owner: 'alice' });
  const client = '10.0.0.7';
  let clock: VirtualClock;
  let reads: SecretReads;
  let lines: ReturnType<typeof recordingLogger>['lines'];
  beforeEach(() => {
    const audit = recordingLogger();
    clock = new VirtualClock();
    lines = audit.lines;
    reads = new SecretReads({ clock, audit: checkedAudit(audit.logger) });
  });

  const read = (secret: string, requestId = 'r', by = 'agent') =>
    reads.record({ requestId, client, sandbox, secret, by });
  const isAdmitted = (of = sandbox) => {
    try {
      reads.admit(of);
      return true;
    } catch (error) {
      expect(error).toMatchObject({ code: 'rate-limited', status: 429 });
      return false;
    }
  };

  it('leave a line at once for each secret and each reader', () => {
    read('ONE');
    read('TWO');
    read('ONE', 'r', 'key-1');
    expect(lines.map(({ fields }) => fields)).toEqual([
      { requestId: 'r', client, owner: 'alice', sandbox: 'sbx-one', secret: 'ONE', by: 'agent' },
      { requestId: 'r', client, owner: 'alice', sandbox: 'sbx-one', secret: 'TWO', by: 'agent' },
      { requestId: 'r', client, owner: 'alice', sandbox: 'sbx-one', secret: 'ONE', by: 'key-1' },
    ]);
  });

  it('leave one line a minute for repetitions, with their number', async () => {
    for (const id of ['r1', 'r2', 'r3']) read('ONE', id);
    await clock.advance(59_999);
    expect(lines).toHaveLength(1);
    await clock.advance(1);
    expect(lines[1]?.fields).toMatchObject({ requestId: 'r3', secret: 'ONE', repeats: 2 });
    read('ONE', 'r4');
    await clock.advance(60_000);
    expect(lines[2]?.fields).toMatchObject({ requestId: 'r4', repeats: 1 });
    await clock.advance(60_000);
    expect([lines.length, clock.timers]).toEqual([3, 0]);
    read('ONE', 'r5');
    expect(lines[3]?.fields).not.toHaveProperty('repeats');
  });

  it('leave the line of repetitions also where the gateway closes', () => {
    read('ONE');
    read('ONE');
    reads.close();
    expect(lines[1]?.fields).toMatchObject({ repeats: 1 });
    expect(clock.timers).toBe(0);
  });

  it('are limited for one sandbox, and for all sandboxes of one owner', async () => {
    for (let count = 0; count < 200; count++) expect(isAdmitted()).toBe(true);
    expect(isAdmitted()).toBe(false);
    await clock.advance(50);
    expect([isAdmitted(), isAdmitted()]).toEqual([true, false]);
    const others = Array.from({ length: 4 }, (_, index) => aSandbox({ name: `sbx-${index}` }));
    for (const other of others) for (let count = 0; count < 200; count++) isAdmitted(other);
    const last = aSandbox({ name: 'sbx-last' });
    const ofBob = aSandbox({ name: 'sbx-bob', owner: 'bob' });
    const admitted = Array.from({ length: 100 }, () => isAdmitted(last)).filter(Boolean).length;
    expect(admitted).toBeLessThan(10);
    expect(isAdmitted(ofBob)).toBe(true);
  });
});
