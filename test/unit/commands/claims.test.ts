import {
  claimStateOf,
  isPrunable,
  listed,
  type ClaimFacts,
  type PruneSelection,
} from '../../../src/commands/claims.ts';
import type { PersistentVolumeClaim, Pod } from '@conversation-operator/kube/core';
import { aClaim, aPod, aSandbox, noon, noonMs } from '../../support/builders.ts';

const sandbox = aSandbox();
const alone = (
  metadata: Partial<PersistentVolumeClaim['metadata']> = {},
): PersistentVolumeClaim => {
  const { metadata: own, ...claim } = aClaim(sandbox);
  const { ownerReferences: _, ...rest } = own;
  return {
    ...claim,
    metadata: { ...rest, annotations: { 'conversation-operator.dev/owner': 'alice' }, ...metadata },
  };
};
const retained = { labels: { 'conversation-operator.dev/retained': 'true' } };
const mounting = (phase: string): Pod => ({
  ...aPod(aSandbox({ name: 'files' }), { phase }),
  spec: {
    containers: [],
    volumes: [{ name: 'files', persistentVolumeClaim: { claimName: 'sbx-1' } }],
  },
});
const facts = (more: Partial<ClaimFacts> = {}): ClaimFacts => ({
  claim: alone(),
  sandboxes: [],
  pods: [],
  ...more,
});

describe('a claim', () => {
  it.each<[string, ClaimFacts, string]>([
    [
      'whose sandbox exists is in use',
      facts({ claim: aClaim(sandbox), sandboxes: [sandbox] }),
      'in-use',
    ],
    [
      'that a sandbox of its name can take is in use',
      facts({ claim: alone(retained), sandboxes: [sandbox] }),
      'in-use',
    ],
    [
      'whose files a command copies is in use by that pod',
      facts({ pods: [mounting('Running')] }),
      'mounted',
    ],
    ['whose pod has ended is not', facts({ pods: [mounting('Succeeded')] }), 'orphaned'],
    [
      'without a sandbox is orphaned',
      facts({ sandboxes: [aSandbox({ name: 'other' })] }),
      'orphaned',
    ],
    [
      'without a sandbox that was to be kept is retained',
      facts({ claim: alone(retained) }),
      'retained',
    ],
    [
      'that is being deleted is that',
      facts({ claim: alone({ deletionTimestamp: noon }), sandboxes: [sandbox] }),
      'deleting',
    ],
  ])('%s', (_name, observed, state) => {
    expect(claimStateOf(observed)).toBe(state);
  });
});

describe('what is to be pruned', () => {
  const dayMs = 86_400_000;
  const everything: PruneSelection = { names: [], retained: true, olderThanMs: 0 };
  const prunable = (observed: ClaimFacts, selection: Partial<PruneSelection> = {}, ageMs = dayMs) =>
    isPrunable(listed(observed, noonMs + ageMs), { ...everything, ...selection });

  it('is never in use', () => {
    expect(prunable(facts())).toBe(true);
    for (const observed of [
      facts({ sandboxes: [sandbox] }),
      facts({ pods: [mounting('Pending')] }),
    ])
      expect(prunable(observed)).toBe(false);
  });

  it('is what a template has kept only when that is asked for', () => {
    expect(prunable(facts({ claim: alone(retained) }))).toBe(true);
    expect(prunable(facts({ claim: alone(retained) }), { retained: false })).toBe(false);
  });

  it.each<[string, Partial<PruneSelection>, boolean]>([
    ['old enough', { olderThanMs: dayMs }, true],
    ['too young', { olderThanMs: dayMs + 1 }, false],
    ['of the owner', { owner: 'alice' }, true],
    ['of another owner', { owner: 'bob' }, false],
    ['named', { names: ['x', 'sbx-1'] }, true],
    ['not named', { names: ['x'] }, false],
  ])('%s', (_name, selection, expected) => {
    expect(prunable(facts(), selection)).toBe(expected);
  });
});
