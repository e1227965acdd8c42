// Keeps the status page fresh. It fetches the page it is on and changes only what differs, in place:
// nothing flickers, and scroll positions, focus and selections stay.
(() => {
  "use strict";
  const INTERVAL_MS = 5000;
  const main = document.getElementById("main");
  const button = document.getElementById("refresh");
  let isPaused = false;

  function morph(now, next) {
    if (now.nodeType !== next.nodeType || now.nodeName !== next.nodeName) {
      now.replaceWith(next.cloneNode(true));
      return;
    }
    if (now.nodeType !== Node.ELEMENT_NODE) {
      if (now.nodeValue !== next.nodeValue) now.nodeValue = next.nodeValue;
      return;
    }
    for (const { name } of [...now.attributes]) {
      if (!next.hasAttribute(name)) now.removeAttribute(name);
    }
    for (const { name, value } of next.attributes) {
      if (now.getAttribute(name) !== value) now.setAttribute(name, value);
    }
    const have = [...now.childNodes];
    const want = [...next.childNodes];
    want.forEach((node, at) => {
      if (at < have.length) morph(have[at], node);
      else now.append(node.cloneNode(true));
    });
    have.slice(want.length).forEach((node) => node.remove());
  }

  async function refresh() {
    if (isPaused || document.hidden) return;
    try {
      const answer = await fetch(location.href, { cache: "no-store", signal: AbortSignal.timeout(INTERVAL_MS) });
      if (!answer.ok) throw new Error(answer.statusText);
      const next = new DOMParser().parseFromString(await answer.text(), "text/html");
      const nextMain = next.getElementById("main");
      if (!nextMain) throw new Error("not the status page");
      if (isPaused) return;
      morph(main, nextMain);
      document.title = next.title;
      document.body.classList.remove("lost");
    } catch {
      const age = document.querySelector(".banner .age");
      if (age && !document.body.classList.contains("lost")) age.textContent = `no answer from ctctl, ${age.textContent}`;
      document.body.classList.add("lost");
    }
  }

  button.hidden = false;
  button.addEventListener("click", () => {
    isPaused = !isPaused;
    button.setAttribute("aria-pressed", String(isPaused));
    button.textContent = isPaused ? "Resume refresh" : "Pause refresh";
    refresh();
  });
  document.addEventListener("visibilitychange", refresh);
  setInterval(refresh, INTERVAL_MS);
})();
