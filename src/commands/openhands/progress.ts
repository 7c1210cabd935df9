/** Where something slow says how far it is. */
export interface Progress {
  /** Something has begun, and what was under way before has ended. */
  step(text: string): void;
  /** What is being done of the present step. */
  detail(text: string): void;
  /** What people have to know beside that. */
  note(text: string): void;
  /** Everything has ended well. */
  done(text: string): void;
  /** Nothing more will come: the last line is left as it is. */
  close(): void;
}

export interface Screen {
  readonly isTTY?: boolean;
  readonly columns?: number;
  write(text: string): unknown;
}

export interface ProgressOptions {
  readonly screen: Screen;
  /** Before each line. */
  readonly label: string;
  /** How many steps there are. */
  readonly steps: number;
  /** Milliseconds on a clock that does not jump. */
  readonly monotonic?: () => number;
}

const tickMs = 1000;
/** Without a terminal, each line stays: a log must not be filled. */
const plainDetailMs = 15_000;

/** On a terminal one line that changes each second; elsewhere a line for each step, and one now and then in between. */
export function showProgress({ screen, label, steps, monotonic = () => performance.now() }: ProgressOptions): Progress {
  const live = screen.isTTY === true;
  const begun = monotonic();
  let number = 0;
  let text = '';
  let detail = '';
  let stepBegun = begun;
  let lastPlain = begun;
  let isOpen = true;

  const since = (start: number) => `${Math.round((monotonic() - start) / 1000)} s`;
  const line = () => `${label}: ${number}/${steps} ${text}${detail === '' ? '' : `: ${detail}`}`;
  const draw = () => {
    const width = Math.max(20, screen.columns ?? 80) - 1;
    screen.write(`\r\u001b[K${`${line()}, ${since(stepBegun)}`.slice(0, width)}`);
  };
  const finish = () => {
    if (live && number > 0) screen.write(`\r\u001b[K${line()}, ${since(stepBegun)}\n`);
  };
  const timer = live ? setInterval(draw, tickMs) : undefined;
  timer?.unref();

  return {
    step: (next) => {
      finish();
      number += 1;
      [text, detail, stepBegun, lastPlain] = [next, '', monotonic(), monotonic()];
      if (live) draw();
      else screen.write(`${line()}\n`);
    },
    detail: (next) => {
      detail = next;
      if (live) draw();
      if (live || monotonic() - lastPlain < plainDetailMs) return;
      lastPlain = monotonic();
      screen.write(`${line()}, ${since(stepBegun)}\n`);
    },
    note: (message) => {
      screen.write(`${live ? '\r\u001b[K' : ''}${label}: ${message}\n`);
    },
    done: (message) => {
      finish();
      screen.write(`${label}: ${message}, ${since(begun)}\n`);
      isOpen = false;
      clearInterval(timer);
    },
    close: () => {
      if (live && isOpen) screen.write('\n');
      isOpen = false;
      clearInterval(timer);
    },
  };
}
