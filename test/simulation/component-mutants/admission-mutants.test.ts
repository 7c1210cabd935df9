import { admissionMutants, latePods, type AdmissionMutantName } from './admission-mutants.ts';
import { mustBeKilled, mustBeClean, type ExpectedKill } from '../expectations.ts';

const timeoutMs = 300_000;
const exceeded = 'the limit is never exceeded';

/**
 * What catches it, under which faults, and from which seed on it is looked for; where nothing can
 * go wrong, unless said.
 */
const expectedKills: Readonly<Record<AdmissionMutantName, ExpectedKill>> = {
  'sandboxes that start are not counted': { rule: exceeded },
  'a slot is free before its pod is gone': { rule: exceeded },
  'one too many is let in': { rule: exceeded },
  'a pod that is being deleted is taken for gone': { rule: 'a pod only where a slot is taken' },
  'the pods of deleted sandboxes are forgotten': { rule: exceeded },
  'a write of unknown outcome is taken for one that was not executed': {
    rule: exceeded,
    faults: 'of handovers',
    firstSeed: 1440,
  },
  'a decision is written whatever the version': {
    rule: 'only who asks or is to come back is let in',
    faults: 'of handovers',
  },
  'a pod is reserved whatever the version': {
    rule: 'only who asks or is to come back is let in',
    faults: 'of handovers',
    firstSeed: 383,
  },
  'a pod is made without a reservation': { rule: 'a pod only where a slot is taken' },
  'pod creations of unknown outcome are forgotten': { rule: 'a pod only where a slot is taken' },
  'those that start may be paused for others': {
    rule: 'what still starts is not paused for others',
  },
  'what comes back by itself makes room for itself': { rule: 'newcomers come first' },
  'nothing comes back by itself': { rule: 'everything settles', firstSeed: 20 },
  'what its owner has paused comes back by itself': {
    rule: 'only who asks or is to come back is let in',
  },
  'what is paused for its age comes back by itself': {
    rule: 'only who asks or is to come back is let in',
    firstSeed: 24,
  },
  'the last to come is the first to be let in': { rule: 'first come, first served' },
  'the youngest is paused first': { rule: 'the oldest is paused first' },
  'who only looks has paused who works': { rule: 'a bare resume pauses no agent that works' },
  'who has a message waits like one who only looks': {
    rule: /everything settles|first come, first served/,
    messages: true,
  },
  'who comes back by itself is like any other': {
    rule: /^what has come back by itself (goes first|is not woken again at once)/,
  },
  'who comes back by itself does so again and again': {
    rule: 'what has come back by itself is not woken again at once',
  },
  'who comes back by itself with nothing to do does not rest': {
    rule: /^what has come back by itself (and has nothing to do rests|is not woken again at once)/,
  },
  'who starts is stalled at once': { rule: 'what still starts is not paused for others' },
  'the pods of deleted sandboxes are never asked for': { rule: 'everything settles' },
  'writes of unknown outcome are never looked up': {
    rule: /everything settles|a slot is given back in time/,
    firstSeed: 190,
    faults: 'all',
    world: 'shared',
  },
  'a change of a quota is not noticed': { rule: exceeded, firstSeed: 11 },
  'a quota that is deleted holds on': {
    rule: 'no sandbox is paused before its time',
    firstSeed: 25,
  },
  "the namespace's limit is ignored": { rule: exceeded },
  'room is made whatever the policy': { rule: 'no sandbox is paused without need', firstSeed: 15 },
  'how long each may run at least is ignored': { rule: 'no sandbox is paused before its time' },
  'whether it comes back is ignored': {
    rule: 'what is not to come back stays paused',
    firstSeed: 10,
  },
  'the passage of time wakes no queue': { rule: 'everything settles' },
  'who waits is counted as one that runs': {
    rule: /no sandbox is paused without need|a bare resume pauses no agent that works/,
    firstSeed: 15,
  },
};

describe('of the quota, the simulation notices when', () => {
  it.each(Object.entries(admissionMutants))(
    '%s',
    (name, mutant) =>
      mustBeKilled(mutant, { faults: 'none', ...expectedKills[name as AdmissionMutantName] }),
    timeoutMs,
  );
});

it(
  'takes pods that are created late for no mutant',
  async () => {
    for (let seed = 1; seed <= 5; seed++)
      await mustBeClean({ seed, faults: 'none', world: 'single-owner', mutant: latePods });
  },
  timeoutMs,
);
