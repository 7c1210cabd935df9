/** Exit codes of the preparation scripts. The scripts of a repository can not use these codes. */
export const PreparationExitCode = {
  branchNotFound: 242,
  cloneFailed: 243,
  accessDenied: 244,
  tooLarge: 245,
  gitMissing: 246,
  volumeFull: 247,
  leadsOut: 248,
} as const;
