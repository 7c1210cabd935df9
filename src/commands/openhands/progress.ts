export interface Screen {
  readonly isTTY?: boolean;
  readonly columns?: number;
  write(text: string): unknown;
}

/** Shows how far a slow task is. */
export interface Progress {
  /** A line that stays. */
  readonly step: (text: string) => void;
  /** The latest output, for the last line of a terminal; a log does not get it. */
  readonly detail: (text: string) => void;
  /** Removes the last line of a terminal. */
  readonly close: () => void;
}

const tickMs = 1000;

export function showProgress(screen: Screen, label: string): Progress {
  const isLive = screen.isTTY === true;
  const begun = performance.now();
  let latest = '';
  const clear = () => isLive && screen.write('\r\u001b[K');
  const draw = () => {
    clear();
    const text = `${label}: ${Math.round((performance.now() - begun) / 1000)} s ${latest}`;
    screen.write(text.slice(0, (screen.columns ?? 80) - 1));
  };
  const timer = isLive ? setInterval(draw, tickMs).unref() : undefined;
  return {
    step: (text) => {
      clear();
      latest = '';
      screen.write(`${label}: ${text}\n`);
    },
    detail: (text) => {
      latest = text.trim();
      if (isLive) draw();
    },
    close: () => {
      clearInterval(timer);
      clear();
    },
  };
}
