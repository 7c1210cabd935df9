import type { Clock } from '@conversation-operator/kube/clock';
import { shareProblem } from './share-problem.ts';
import { Shares } from '@conversation-operator/kube/shares';

/**
 * Maximum bytes of bodies that are read and worked on at once, of all owners and of one. While a
 * body is parsed, checked and stored, it takes some eight times its size.
 */
const totalBytes = 32 * 1024 * 1024;
const bytesPerOwner = 8 * 1024 * 1024;
const maxWaitMs = 10_000;
const maxWaiting = 1024;
const maxWaitingPerOwner = 256;

/** The memory that bodies of requests take, in bytes. */
export const bodyShares = (clock: Clock): Shares =>
  new Shares({
    total: totalBytes,
    perOwner: bytesPerOwner,
    refuse: (bound) => shareProblem(bound, 'large requests'),
    waiting: { clock, maxMs: maxWaitMs, total: maxWaiting, perOwner: maxWaitingPerOwner },
  });
