/**
 * Milliseconds of CPU time that this process spends on the work. Elapsed time also depends on what
 * else runs on the machine, so no test that bounds the cost of some work measures it.
 */
export async function cpuMsOf(work: () => unknown): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}
