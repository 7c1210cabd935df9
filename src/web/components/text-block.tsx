import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

interface TextBlockProps {
  readonly label: string;
  readonly children: ComponentChildren;
  /** Called when the end of the text is in its frame, at once where all of it is. */
  readonly onEnd?: () => void;
  /** Whether the text takes the place of what had the focus. */
  readonly takesFocus?: boolean;
}

/** A text with its lines as they are. The keyboard can scroll it. */
export function TextBlock({ label, children, onEnd, takesFocus = false }: TextBlockProps) {
  const frame = useRef<HTMLPreElement>(null);
  useEffect(() => {
    if (takesFocus) frame.current?.focus();
  }, []);
  const check = (shown: HTMLElement | null) => {
    if (shown !== null && shown.scrollTop + shown.clientHeight >= shown.scrollHeight - 1) onEnd?.();
  };
  return (
    <pre
      ref={(element) => {
        frame.current = element;
        check(element);
      }}
      role="group"
      tabIndex={0}
      aria-label={label}
      onScroll={(event) => check(event.currentTarget)}
    >
      {children}
    </pre>
  );
}
