"""Texts in encodings older than UTF-8: prose dense in high bytes, code with one comment."""

from __future__ import annotations

GERMAN = (
    "Die Größe der Warteschlange ist beschränkt. Überschüssige Aufträge werden zurückgestellt, "
    "bis wieder Plätze frei sind; für jeden gilt dieselbe Frist."
)
FRENCH = (
    "Le résultat est gardé en mémoire jusqu'à la fin de la requête. Où qu'il soit utilisé, "
    "son état a déjà été vérifié ; l'appelant n'a rien à libérer."
)
SPANISH = (
    "La función devuelve el tamaño máximo del búfer. ¿Qué ocurre si el índice está dañado? "
    "Se reconstruirá automáticamente la próxima vez, según la configuración."
)
POLISH = (
    "Funkcja zwraca największą wartość z kolejki zadań. Jeśli połączenie zostało przerwane, "
    "żądanie będzie powtórzone później; użytkownik może też wyłączyć tę opcję w ustawieniach."
)
CZECH = (
    "Každý požadavek čeká ve frontě, dokud není volné místo. Příliš dlouhé zprávy jsou zkráceny "
    "a uživatel dostane upozornění, že část textu chybí. Nastavení lze kdykoli změnit."
)
HUNGARIAN = (
    "A függvény visszaadja a következő üzenetet. Ha a kapcsolat megszűnik, a kérést később újra "
    "elküldjük; a felhasználó ezt a beállításokban bármikor kikapcsolhatja, és erről értesítést kap."
)
TURKISH = (
    "Bağlantı kesilirse istek daha sonra yeniden gönderilir. Kullanıcı bu seçeneği ayarlardan "
    "değiştirebilir; çok uzun iletiler kısaltılır ve işlem günlüğüne şöyle bir uyarı yazılır."
)
GREEK = (
    "Η συνάρτηση επιστρέφει το επόμενο μήνυμα της ουράς. Αν η σύνδεση διακοπεί, το αίτημα "
    "επαναλαμβάνεται αργότερα και ο χρήστης ειδοποιείται για την καθυστέρηση."
)
HEBREW = (
    "הפונקציה מחזירה את ההודעה הבאה בתור. אם החיבור נקטע, הבקשה תישלח שוב מאוחר יותר, "
    "והמשתמש יקבל הודעה על העיכוב. אפשר לשנות את ההגדרה בכל עת."
)
ARABIC = (
    "تعيد الدالة الرسالة التالية من قائمة الانتظار. إذا انقطع الاتصال فسوف يعاد إرسال الطلب "
    "لاحقا، ويتلقى المستخدم إشعارا بالتأخير. يمكن تغيير هذا الإعداد في أي وقت."
)
THAI = "ฟังก์ชันนี้คืนข้อความถัดไปในคิว ถ้าการเชื่อมต่อขาดหาย คำขอจะถูกส่งใหม่ภายหลัง และผู้ใช้จะได้รับการแจ้งเตือน สามารถเปลี่ยนการตั้งค่านี้ได้ทุกเวลา"
RUSSIAN = (
    "Функция возвращает следующее сообщение из очереди. Если соединение прервано, запрос будет "
    "отправлен позже, а пользователь получит уведомление о задержке."
)
UKRAINIAN = (
    "Функція повертає наступне повідомлення з черги. Якщо з'єднання перервано, запит буде "
    "надіслано пізніше, а користувач отримає сповіщення про затримку."
)
JAPANESE = (
    "この関数はキューの次のメッセージを返します。接続が切れた場合、要求は後で再送され、"
    "利用者には遅延が通知されます。設定はいつでも変更できます。"
)
CHINESE = "该函数返回队列中的下一条消息。如果连接中断，请求将在稍后重新发送，用户会收到延迟通知。可以随时更改此设置。"
TAIWANESE = "這個函式會傳回佇列中的下一則訊息。如果連線中斷，要求會在稍後重新傳送，使用者會收到延遲通知。可以隨時變更這個設定。"
KOREAN = (
    "이 함수는 대기열의 다음 메시지를 돌려줍니다. 연결이 끊어지면 요청은 나중에 다시 전송되고 "
    "사용자는 지연 알림을 받습니다. 이 설정은 언제든지 바꿀 수 있습니다."
)

DENSE = (
    (GERMAN, "cp1252"),
    (GERMAN, "cp850"),
    (FRENCH, "latin-1"),
    (FRENCH, "cp850"),
    (SPANISH, "cp1252"),
    (POLISH, "cp1250"),
    (POLISH, "iso8859-2"),
    (CZECH, "cp1250"),
    (CZECH, "iso8859-2"),
    (HUNGARIAN, "iso8859-2"),
    (TURKISH, "cp1254"),
    (TURKISH, "iso8859-9"),
    (GREEK, "cp1253"),
    (GREEK, "iso8859-7"),
    (HEBREW, "cp1255"),
    (ARABIC, "cp1256"),
    (ARABIC, "iso8859-6"),
    (THAI, "cp874"),
    (RUSSIAN, "cp1251"),
    (RUSSIAN, "koi8-r"),
    (RUSSIAN, "iso8859-5"),
    (RUSSIAN, "cp866"),
    (UKRAINIAN, "cp1251"),
    (JAPANESE, "cp932"),
    (JAPANESE, "euc-jp"),
    (CHINESE, "gb18030"),
    (TAIWANESE, "big5"),
    (KOREAN, "cp949"),
)

# One comment in a file of code: few high bytes, in words of one language.
COMMENTS = (
    ("Größe für alle", "cp1252"),
    ("Straße, Füße", "latin-1"),
    ("Grüße aus München: die Prüfung läuft", "latin-1"),
    ("Français, où çà", "cp1252"),
    ("déjà vérifié par l'appelant", "latin-1"),
    ("tamaño máximo del búfer", "cp1252"),
    ("não há função de conversão", "cp1252"),
    ("på grund af fejl: brug større størrelse", "cp1252"),
    ("liczba żądań w kolejce, później zostaną ponowione", "cp1250"),
    ("velikost fronty, příliš dlouhé zprávy se zkrátí", "cp1250"),
    ("bağlantı kesilirse işlem yeniden gönderilir, değişmez", "cp1254"),
    ("размер очереди сообщений", "cp1251"),
    ("размер очереди сообщений", "koi8-r"),
    ("μέγεθος της ουράς μηνυμάτων", "cp1253"),
    ("גודל תור ההודעות של השרת", "cp1255"),
    ("حجم قائمة انتظار الرسائل", "cp1256"),
    ("ขนาดของคิวข้อความ", "cp874"),
    ("キューの大きさを返す", "cp932"),
    ("返回队列的大小", "gb18030"),
    ("큐의 크기를 돌려준다", "cp949"),
)
CODE = "def size(queue):\n    # {}\n    return len(queue.waiting)\n\n\nLIMIT = 200\n"

SAMPLES = (*DENSE, *((CODE.format(comment), encoding) for comment, encoding in COMMENTS))
