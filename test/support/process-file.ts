import { readFileSync } from 'node:fs';

/** The text of `/proc/PID/NAME`; empty where the process has ended or belongs to another user. */
export function processFile(pid: number | string, name: string): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'latin1');
  } catch {
    return '';
  }
}

/** The first line of a file as soon as it has ended: a file exists before it is written. */
export function firstLine(path: string): string | undefined {
  try {
    return /^(.*)\n/.exec(readFileSync(path, 'utf8'))?.[1];
  } catch {
    return undefined;
  }
}

/** Whether a process runs. A zombie does not. */
export const lives = (pid: number | string): boolean => {
  const stat = processFile(pid, 'stat');
  return stat !== '' && !stat.includes(') Z ');
};
