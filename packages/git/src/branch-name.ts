export const maxBranchNameLength = 255;

/**
 * Names that git accepts for a branch. Git takes a name that begins with a dash for an option, and
 * refuses it.
 */
// eslint-disable-next-line no-control-regex -- git refuses these too
export const branchNamePattern = /^[^-\s~^:?*[\\\x00-\x1f\x7f][^\s~^:?*[\\\x00-\x1f\x7f]*$/;

/** Whether the text may be the name of a branch; fast enough for tens of thousands of names. */
export const isBranchName = (name: string): boolean =>
  name.length <= maxBranchNameLength && branchNamePattern.test(name);
