import { ClaimShares } from '../../../../src/controllers/pool/claims.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

/** Shares, and a claim of a warm sandbox that is counted where the owner may have one. */
function setUp() {
  const clock = new VirtualClock();
  const shares = new ClaimShares({ clock });
  const start = (owner: string, ready: number, template = 'default'): boolean => {
    shares.started(template, owner);
    const may = shares.mayClaim(template, owner, ready);
    if (may) shares.claimed(template, owner);
    return may;
  };
  return { clock, shares, start };
}

describe('the warm sandboxes of a template', () => {
  it('are all for an owner who starts alone', () => {
    const { start } = setUp();
    expect([4, 3, 2, 1].map((ready) => start('alice', ready))).toEqual([true, true, true, true]);
  });

  it('are divided by the owners who start, with what each had before the other came', () => {
    const { start } = setUp();
    for (const ready of [6, 5, 4]) start('alice', ready);
    expect(start('bob', 3)).toBe(true);
    expect(start('alice', 2)).toBe(false);
    expect([2, 1].map((ready) => start('bob', ready))).toEqual([true, true]);
  });

  it('of one template are not charged for those of another one', () => {
    const { start } = setUp();
    for (const ready of [4, 3, 2]) start('alice', ready, 'large');
    start('bob', 1, 'large');
    expect(start('alice', 1)).toBe(true);
    expect(start('alice', 1, 'large')).toBe(false);
  });

  it('are had again a minute after the claim, and when a claim was not executed', async () => {
    const { clock, shares, start } = setUp();
    start('bob', 2);
    shares.started('default', 'alice');
    const takeBack = [shares.claimed('default', 'alice'), shares.claimed('default', 'alice')];
    expect(shares.mayClaim('default', 'alice', 1)).toBe(false);
    takeBack[0]?.();
    expect(shares.mayClaim('default', 'alice', 1)).toBe(true);
    await clock.advance(30_000);
    for (const owner of ['alice', 'bob']) shares.started('default', owner);
    await clock.advance(30_000);
    expect(shares.mayClaim('default', 'alice', 1)).toBe(true);
  });
});
