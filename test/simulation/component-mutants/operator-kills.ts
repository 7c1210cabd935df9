import { rareSeeds, type Kill } from '../mutants/mutant.ts';
import type { OperatorMutantName } from './operator-mutants.ts';

const deliveredOnce = 'each message is delivered once and in order';

/** The check that kills each mutant, and the faults. */
export const operatorKills: Readonly<Record<OperatorMutantName, Kill>> = {
  'a status is written regardless of its version': {
    rule: /transitions of a start are only appended|no start goes backwards|READY and ERROR are final|the master key of a sandbox does not change/,
    focus: 'lag',
    world: 'shared',
  },
  'a delayed requeue is lost': { rule: 'everything settles' },
  'a sandbox is created once more a minute later': {
    rule: 'no sandbox is created for a deleted conversation',
    world: 'shared',
  },
  'a creation of unknown outcome is repeated under another name': {
    rule: /a sandbox has one pod at most|a volume has one agent at most/,
    focus: 'answers',
    world: 'shared',
  },
  'deletions have no preconditions, and are repeated': {
    rule: 'no pod is deleted while its sandbox should run',
  },
  'the writes of a leader are not fenced': { rule: 'only the leader writes', faults: 'of leaders' },
  'the first message is sent again': {
    rule: 'an agent receives a first message once',
    world: 'single-owner',
    seeds: rareSeeds,
  },
  'a pod is deleted without an interrupt of its runs': {
    rule: 'a run is interrupted before its pod is deleted',
    faults: 'none',
  },
  'a sandbox is RUNNING before its agent has answered': {
    rule: 'a sandbox is RUNNING only after its agent has answered',
  },
  'a status contains the session key': { rule: 'no secret is stored' },
  'a pod contains the secret key of its agent': { rule: 'no secret is stored' },
  'a run resumes that its owner has paused': {
    rule: 'a run that its owner has paused stays paused',
    focus: 'use',
    faults: 'none',
    world: 'shared',
  },
  'lost containers are not counted': {
    rule: 'the number of resumes of a run is limited',
    seeds: rareSeeds,
  },
  'rejected resumes are not counted': {
    rule: 'everything settles',
    focus: 'broken',
    world: 'shared',
    seeds: rareSeeds,
  },
  'the first rejected resume ends a run': {
    rule: 'everything settles',
    focus: 'broken',
    world: 'shared',
  },
  'the error of a failed run is not read': {
    rule: 'a run that has failed is not resumed',
    focus: 'ends',
    world: 'shared',
    faults: 'none',
  },
  'an action that waits for a confirmation is lost with its pod': {
    rule: 'no pod is deleted while an action waits for a confirmation',
    focus: 'ends',
    world: 'shared',
    faults: 'none',
  },
  'a run that was observed once never ends': {
    rule: 'no conversation is reported as running without a running agent',
  },
  'a run that was lost before it was saved counts as finished': {
    rule: 'everything settles',
    focus: 'broken',
    world: 'shared',
  },
  'a pause is reverted': { rule: 'the operator does not change the spec of a sandbox' },
  'a start loses its first transition': { rule: 'transitions of a start are only appended' },
  'every poll of an agent changes the status': {
    rule: /no hot loop|everything settles|a settled system stays settled/,
  },
  'a message is sent again without a check whether the agent has it': {
    rule: deliveredOnce,
    messages: true,
  },
  'a message is sent before its delivery is stored': { rule: deliveredOnce, messages: true },
  'a message counts as delivered without an answer of the agent': {
    rule: deliveredOnce,
    messages: true,
  },
  'a message that waits in an agent is sent again': { rule: deliveredOnce, messages: true },
  'volume claims have no owner': { rule: 'everything settles' },
  'a pod is created for every sandbox in the cache': {
    rule: /everything settles|no pod is deleted while its sandbox should run/,
  },
};
