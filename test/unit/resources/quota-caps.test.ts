import { capsOf, quotaCaps } from '../../../src/resources/quota-caps.ts';
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
