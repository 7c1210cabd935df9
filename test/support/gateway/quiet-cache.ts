/** A cache that has what a test has put into its store, and reports no change. */
export const quietCache = <T extends object>(store: T) => ({
  store,
  addHandler: () => () => undefined,
  hasSynced: true,
});
