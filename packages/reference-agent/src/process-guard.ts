import { spawn, type ChildProcess } from 'node:child_process';

/** Reads process groups that come (+) and go (-); when its input ends, because the server is no more, it kills those that are left. */
const script = `
groups=
while read -r sign group; do
  case $sign in
    +) groups="$groups $group" ;;
    -) rest=; for each in $groups; do [ "$each" = "$group" ] || rest="$rest $each"; done; groups=$rest ;;
  esac
done
for each in $groups; do kill -9 "-$each"; done 2>/dev/null`;

/**
 * Kills the process groups of commands when the server ends, even by SIGKILL: a small shell reads from a pipe, and kills the remaining
 * groups at the end of its input. The shell starts with the first command.
 */
export class ProcessGuard {
  #shell: ChildProcess | undefined;

  add(processGroup: number): void {
    this.#send(`+ ${processGroup}\n`);
  }

  remove(processGroup: number): void {
    this.#send(`- ${processGroup}\n`);
  }

  /** Kills the registered process groups. */
  close(): void {
    this.#shell?.stdin?.end();
    this.#shell = undefined;
  }

  #send(line: string): void {
    this.#shell ??= this.#start();
    this.#shell.stdin?.write(line);
  }

  #start(): ChildProcess {
    // In a session of its own: a signal for the server's process group must not take the guard along.
    const shell = spawn('/bin/sh', ['-c', script], { detached: true, stdio: ['pipe', 'ignore', 'ignore'], env: {} });
    const forget = () => {
      if (this.#shell === shell) this.#shell = undefined;
    };
    shell.on('error', forget);
    shell.on('exit', forget);
    shell.stdin.on('error', forget);
    shell.unref();
    return shell;
  }
}
