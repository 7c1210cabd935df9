import type { ComponentChildren } from 'preact';

interface TextBlockProps {
  readonly label: string;
  readonly children: ComponentChildren;
  /** Called when the end of the text is in its frame, at once where all of it is. */
  readonly onEnd?: () => void;
}

/** A text with its lines as they are. The keyboard can scroll it. */
export function TextBlock({ label, children, onEnd }: TextBlockProps) {
  const check = (frame: HTMLElement | null) => {
    if (frame !== null && frame.scrollTop + frame.clientHeight >= frame.scrollHeight - 1) onEnd?.();
  };
  return (
    <pre
      ref={check}
      role="group"
      tabIndex={0}
      aria-label={label}
      onScroll={(event) => check(event.currentTarget)}
    >
      {children}
    </pre>
  );
}
