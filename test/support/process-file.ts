import { readFileSync } from 'node:fs';

/** The text of `/proc/PID/NAME`; empty where the process has ended or belongs to another user. */
export function processFile(pid: number | string, name: string): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'latin1');
  } catch {
    return '';
  }
}

/** Whether a process runs. A zombie does not. */
export const lives = (pid: number | string): boolean => {
  const stat = processFile(pid, 'stat');
  return stat !== '' && !stat.includes(') Z ');
};
