// Numbers on the first screen, for the picture of docs/src/guide/reading.md: a badge left of each part.
addEventListener("load", () => {
  const parts = ["main header p", ".sentence", ".shares", ".card h3", ".card .quote", ".card .warp", ".card .advice", ".card .targets", ".trust"];
  parts.forEach((selector, at) => {
    const box = document.querySelector(selector).getBoundingClientRect();
    const badge = Object.assign(document.createElement("b"), { textContent: at + 1 });
    const place = { position: "absolute", left: `${box.left - 26}px`, top: `${box.top + scrollY - 2}px` };
    const look = { width: "22px", borderRadius: "11px", background: "#0a58a6", color: "#fff", font: "700 13px/22px system-ui" };
    Object.assign(badge.style, place, look, { textAlign: "center", zIndex: 9 });
    document.body.append(badge);
  });
});
