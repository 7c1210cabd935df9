import { rareSeeds, type Kill } from '../mutants/mutant.ts';
import type { AdmissionMutantName } from './admission-mutants.ts';

const exceeded = 'the limit is never exceeded';

/** The check that kills each mutant, without faults unless stated. */
export const admissionKills: Readonly<Record<AdmissionMutantName, Kill>> = {
  'sandboxes that start are not counted': { rule: exceeded },
  'a pod that is being deleted counts as gone': { rule: 'only a sandbox with a slot has a pod' },
  'the pods of deleted sandboxes are forgotten': { rule: exceeded },
  'a write of unknown outcome counts as not executed': { rule: exceeded, faults: 'of handovers' },
  'an admission is written regardless of the version': {
    seeds: rareSeeds,
    focus: 'lag',
    rule: /a sandbox is admitted only on a request or by an automatic resume|the master key of a sandbox does not change/,
    faults: 'of handovers',
  },
  'a pod is reserved regardless of the version': {
    seeds: rareSeeds,
    focus: 'lag',
    rule: 'a sandbox is admitted only on a request or by an automatic resume',
    faults: 'of handovers',
  },
  'a pod is created without a reservation': { rule: 'only a sandbox with a slot has a pod' },
  'pod creations of unknown outcome are forgotten': {
    rule: 'only a sandbox with a slot has a pod',
  },
  'sandboxes that start may be evicted': { rule: 'a sandbox that still starts is not evicted' },
  'an automatic resume evicts other sandboxes': { rule: 'newcomers come first' },
  'no sandbox resumes automatically': { focus: 'resumes', rule: 'everything settles' },
  'a sandbox that its owner has paused resumes automatically': {
    rule: 'a sandbox is admitted only on a request or by an automatic resume',
  },
  'a sandbox that was paused for its age resumes automatically': {
    focus: 'resumes',
    rule: /a sandbox is admitted only on a request or by an automatic resume|automatic resumes of a sandbox keep their delay/,
  },
  'a resume with a message counts as a bare resume': {
    rule: /everything settles|first come, first served|no controller runs hot/,
    messages: true,
  },
  'an automatic resume counts as a request of a person': {
    focus: 'resumes',
    rule: /^an idle sandbox that resumed automatically is evicted first|^automatic resumes of a sandbox keep their delay/,
  },
  'automatic resumes have no delay': {
    focus: 'resumes',
    rule: 'automatic resumes of a sandbox keep their delay',
  },
  'a sandbox without unfinished work resumes automatically again': {
    focus: 'resumes',
    rule: /^a sandbox without unfinished work resumes automatically only once|^automatic resumes of a sandbox keep their delay/,
    seeds: rareSeeds,
  },
  'a sandbox that starts is stalled at once': {
    rule: 'a sandbox that still starts is not evicted',
  },
  'the pods of deleted sandboxes are never read': { rule: 'everything settles' },
  'a change of a quota is ignored': {
    rule: /the limit is never exceeded|no sandbox is evicted without need|a sandbox that must not resume stays paused/,
    seeds: rareSeeds,
  },
  'the limit of the namespace is ignored': { rule: exceeded },
};
