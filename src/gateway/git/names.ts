import { branchNamePattern, maxBranchNameLength } from '@conversation-operator/git/ref-list';
import { z } from 'zod';

/**
 * owner/name, or a path of groups. A segment of dots, or with a leading dash, would have another
 * meaning to git.
 */
export const repository = () =>
  z
    .string()
    .max(255)
    .regex(
      /^(?!\.{1,2}\/)[A-Za-z0-9_.][A-Za-z0-9_.-]*(\/(?!\.{1,2}(\/|$))[A-Za-z0-9_.][A-Za-z0-9_.-]*)+$/,
      'must be in owner/name form',
    );

export const branch = () =>
  z
    .string()
    .min(1)
    .max(maxBranchNameLength)
    .regex(branchNamePattern, 'must be the name of a branch');
