import {
  Ledger,
  archiveRetentionMs,
  capFields,
  capsOf,
  quotaCaps,
} from '../../../src/quota/caps.ts';
import { aQuota } from '../../support/builders.ts';

describe('the limits on what is stored', () => {
  const limitsOf = (owner: string, ...quotas: Parameters<typeof aQuota>[1][]) => {
    const caps = quotaCaps(quotas.map((spec, index) => aQuota(`quota-${index}`, spec)));
    return capsOf(caps, owner, 'maxConversations').map(
      ({ scope, quotaName, limit }) => `${scope} ${quotaName} ${limit}`,
    );
  };

  it('are none where no quota names one', () => {
    expect(limitsOf('alice')).toEqual([]);
    expect(limitsOf('alice', { scope: 'Owner' }, { scope: 'Namespace', maxSandboxes: 5 })).toEqual(
      [],
    );
  });

  it("are those of the owner's own quota, not those of the quota for every owner", () => {
    const quotas = [
      { scope: 'Owner', maxConversations: 10 },
      { scope: 'Owner', owner: 'alice', maxConversations: 20 },
    ] as const;
    expect(limitsOf('alice', ...quotas)).toEqual(['Owner quota-1 20']);
    expect(limitsOf('bob', ...quotas)).toEqual(['Owner quota-0 10']);
  });

  it("are those for every owner in a field that the owner's own quota leaves out", () => {
    expect(
      limitsOf(
        'alice',
        { scope: 'Owner', maxConversations: 10 },
        { scope: 'Owner', owner: 'alice', maxStoredBytes: 1000 },
      ),
    ).toEqual(['Owner quota-0 10']);
  });

  it('are the lowest of several quotas for the same, field by field', () => {
    const quotas = [
      aQuota('b', { scope: 'Owner', maxConversations: 10, maxSandboxes: 7 }),
      aQuota('a', { scope: 'Owner', maxConversations: 20, maxSandboxes: 3 }),
      aQuota('c', { scope: 'Owner', maxConversations: 10 }),
    ];
    const caps = quotaCaps(quotas);
    expect(capsOf(caps, 'alice', 'maxConversations')).toEqual([
      { quotaName: 'b', scope: 'Owner', limit: 10 },
    ]);
    expect(capsOf(caps, 'alice', 'maxSandboxes')).toEqual([
      { quotaName: 'a', scope: 'Owner', limit: 3 },
    ]);
  });

  it('hold for the namespace as well, beside those of the owner', () => {
    expect(
      limitsOf(
        'alice',
        { scope: 'Namespace', maxConversations: 0 },
        { scope: 'Owner', owner: 'alice', maxConversations: 20 },
      ),
    ).toEqual(['Owner quota-1 20', 'Namespace quota-0 0']);
  });
});

describe('the limits on archives', () => {
  const hourMs = 3_600_000;
  const caps = quotaCaps([
    aQuota('default', { scope: 'Owner', maxArchivedBytes: 100, archiveRetention: '48h' }),
    aQuota('alice', { scope: 'Owner', owner: 'alice', archiveRetention: '72h' }),
    aQuota('bob', { scope: 'Owner', owner: 'bob', maxArchivedBytes: 0 }),
    aQuota('all', { scope: 'Namespace', maxArchivedBytes: 1000 }),
  ]);

  it.each([
    ['alice', ['Owner default 100', 'Namespace all 1000']],
    ['bob', ['Owner bob 0', 'Namespace all 1000']],
    ['carol', ['Owner default 100', 'Namespace all 1000']],
  ])('bound the bytes of %s by %j', (owner, expected) => {
    expect(
      capsOf(caps, owner, 'maxArchivedBytes').map(
        ({ scope, quotaName, limit }) => `${scope} ${quotaName} ${limit}`,
      ),
    ).toEqual(expected);
  });

  it.each([
    ['alice', undefined, 72 * hourMs],
    ['alice', '24h', 24 * hourMs],
    ['alice', '100h', 72 * hourMs],
    ['bob', undefined, 48 * hourMs],
    ['bob', '0s', 0],
  ])('keep archives of %s, whose template says %s, for %s ms', (owner, retention, ms) => {
    expect(archiveRetentionMs(caps, owner, retention)).toBe(ms);
  });

  it('are none without a quota', () => {
    expect(archiveRetentionMs(quotaCaps([]), 'alice', undefined)).toBeUndefined();
    expect(archiveRetentionMs(quotaCaps([]), 'alice', '1h')).toBe(hourMs);
    expect(capsOf(quotaCaps([]), 'alice', 'maxArchivedBytes')).toEqual([]);
  });

  it('refuse no start: they are none of the fields that starts are held against', () => {
    expect(capFields).toEqual(['maxConversations', 'maxStoredBytes', 'maxSandboxes']);
    const uses = new Ledger().usesOf(caps, 'bob');
    expect(uses).toEqual([]);
    expect(
      new Ledger().exceeded(caps, 'bob', { conversations: 1, storedBytes: 1, sandboxes: 1 }),
    ).toBeUndefined();
  });
});
